"""One connection to a proxy: bytes out, answers in, TLS in layers. It is used once and never for anything else.

An asyncio.Protocol and one future per answer instead of streams: a check costs little more than its bytes. Nothing ever
falls back to a direct connection, and no setting of the environment is read.
"""

from __future__ import annotations

import asyncio
import errno
import ssl
from collections.abc import Callable
from typing import Final, TypeVar, cast

from proxypool.network.faults import Fault, WireError
from proxypool.network.http1 import MAX_BODY_BYTES, MAX_HEAD_BYTES, AnswerReader, Response
from proxypool.network.tls import TlsLayer

_NO_ROUTE: Final = (errno.ENETUNREACH, errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EMFILE, errno.ENFILE)
_FRAMING_BYTES: Final = 65_536  # what chunks may add

Found = TypeVar("Found")
Reader = Callable[[bytearray, bool], Found | None]


class Wire(asyncio.Protocol):
    """A connection and what has arrived on it, never more than an answer's bounds. Every method raises WireError."""

    __slots__ = ("_buffer", "_ended", "_fault", "_layers", "_more", "_most_bytes", "_transport", "received_bytes")

    def __init__(self) -> None:
        self.received_bytes = 0  # from the proxy, everything included: what a provider bills
        self._buffer = bytearray()
        self._ended = False
        self._fault: Fault | None = None
        self._most_bytes = MAX_HEAD_BYTES + MAX_BODY_BYTES + _FRAMING_BYTES
        self._more: asyncio.Future[None] | None = None
        self._transport: asyncio.Transport | None = None
        self._layers: list[TlsLayer] = []  # the outermost first

    @classmethod
    async def open(cls, ip: str, port: int) -> Wire:
        """A connection to a vetted address; TimeoutError where the system gives up."""
        try:
            _, wire = await asyncio.get_running_loop().create_connection(cls, ip, port)
        except OSError as error:
            if isinstance(error, TimeoutError):
                raise
            raise WireError(Fault.NO_ROUTE if error.errno in _NO_ROUTE else Fault.REFUSED) from error
        return wire

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Called by the loop."""
        self.received_bytes += len(data)
        if self._layers:
            data = self._decrypt(data)
        self._buffer += data
        if len(self._buffer) > self._most_bytes:
            self._fault = Fault.TOO_LARGE
        if self._fault:
            self.close()
        self._wake()

    def _decrypt(self, data: bytes) -> bytes:
        try:
            for layer in self._layers:
                data = layer.feed(data)
        except WireError as error:
            self._fault, data = error.fault, b""
        self._flush()
        return data

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop."""
        self._ended = True
        self._wake()

    def close(self) -> None:
        """Ends the connection at once; nothing can be sent on it any more."""
        if self._transport is not None:
            self._transport.abort()
            self._transport = None

    async def ask(self, request: bytes, *, max_body_bytes: int = MAX_BODY_BYTES, bodiless: bool = False) -> Response:
        """Sends a request, reads its whole answer and ends the connection: it is never used for another.

        `bodiless`: the answer has no body whatever its headers say (to HEAD).
        """
        self._most_bytes = MAX_HEAD_BYTES + max_body_bytes + _FRAMING_BYTES
        self.send(request)
        try:
            answer = await self.read(AnswerReader(bodiless=bodiless, max_body_bytes=max_body_bytes))
        finally:
            self.close()
        self.expect_silence()  # a second answer that nobody asked for
        return answer

    async def tunnel(self, request: bytes) -> int:
        """Sends a CONNECT; returns its status. After 200 the way is free, and nothing may have come through it yet."""
        self.send(request)
        status = (await self.read(AnswerReader(bodiless=True))).status
        if status == 200:
            self.expect_silence()
        return status

    def expect_silence(self) -> None:
        """Raises WireError where the other side has spoken out of turn."""
        if self._buffer:
            raise WireError(Fault.PROTOCOL)

    async def secure(self, context: ssl.SSLContext, server_name: str) -> None:
        """TLS on this connection, inside of what is there already; the certificate is verified for `server_name`."""
        self.expect_silence()
        layer = TlsLayer(context, server_name)
        self._layers.append(layer)
        layer.feed(b"")
        self._flush()

        def is_ready(_: bytearray, ended: bool) -> bool | None:
            if ended and not layer.ready:
                raise WireError(Fault.CLOSED)
            return layer.ready or None

        await self.read(is_ready)

    def send(self, data: bytes) -> None:
        """Writes through all layers."""
        if self._transport is None or self._ended:
            raise WireError(self._fault or Fault.CLOSED)
        if self._layers:
            self._layers[-1].encrypt(data)
            self._flush()
        else:
            self._transport.write(data)

    async def read(self, reader: Reader[Found]) -> Found:
        """What the reader makes of the bytes, as soon as it makes something of them."""
        while True:
            if self._fault:
                raise WireError(self._fault)
            found = reader(self._buffer, self._ended and not self._is_torn())
            if found is not None:
                return found
            if self._ended:
                raise WireError(Fault.PROTOCOL if self._buffer else Fault.CLOSED)
            self._more = asyncio.get_running_loop().create_future()
            await self._more

    def _is_torn(self) -> bool:
        """Whether TLS ended without saying so: that ends no body whose length nobody told."""
        return any(layer.ready and not layer.finished for layer in self._layers)

    def _wake(self) -> None:
        if self._more is not None and not self._more.done():
            self._more.set_result(None)

    def _flush(self) -> None:
        """Sends what the layers have to say, each one's words wrapped by those around it."""
        for index in range(len(self._layers) - 1, -1, -1):
            data = self._layers[index].outgoing()
            if not data:
                continue
            if index:
                self._layers[index - 1].encrypt(data)
            elif self._transport is not None and not self._transport.is_closing():
                self._transport.write(data)
