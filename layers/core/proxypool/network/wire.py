"""One connection to a proxy: bytes out, responses in, nested TLS. It carries a single request.

An asyncio.Protocol with one future per response instead of streams reduces the CPU time of a check. There is no fallback
to a direct connection, and proxy settings in the environment are ignored.
"""

from __future__ import annotations

import asyncio
import errno
import ssl
from collections.abc import Callable
from typing import Final, TypeVar, cast

from proxypool.network.faults import Fault, TransportError
from proxypool.network.http1 import MAX_BODY_BYTES, MAX_HEAD_BYTES, Response, ResponseReader
from proxypool.network.tls import TlsLayer

_NO_ROUTE: Final = (errno.ENETUNREACH, errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EMFILE, errno.ENFILE)
_FRAMING_BYTES: Final = 65_536  # overhead of chunked encoding

Result = TypeVar("Result")
Reader = Callable[[bytearray, bool], Result | None]


class Connection(asyncio.Protocol):
    """A connection and its receive buffer, bounded by the limits of a response. All methods raise TransportError."""

    __slots__ = ("_buffer", "_eof", "_fault", "_layers", "_max_bytes", "_transport", "_waiter", "received_bytes")

    def __init__(self) -> None:
        self.received_bytes = 0  # from the proxy, with all overhead: what a provider bills
        self._buffer = bytearray()
        self._eof = False
        self._fault: Fault | None = None
        self._max_bytes = MAX_HEAD_BYTES + MAX_BODY_BYTES + _FRAMING_BYTES
        self._waiter: asyncio.Future[None] | None = None
        self._transport: asyncio.Transport | None = None
        self._layers: list[TlsLayer] = []  # outermost first

    @classmethod
    async def open(cls, ip: str, port: int) -> Connection:
        """Connects to a vetted address; also raises TimeoutError if the system's connect timed out."""
        try:
            _, wire = await asyncio.get_running_loop().create_connection(cls, ip, port)
        except OSError as error:
            if isinstance(error, TimeoutError):
                raise
            raise TransportError(Fault.NO_ROUTE if error.errno in _NO_ROUTE else Fault.REFUSED) from error
        return wire

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Called by the event loop."""
        self.received_bytes += len(data)
        if self._layers:
            data = self._decrypt(data)
        self._buffer += data
        if len(self._buffer) > self._max_bytes:
            self._fault = Fault.TOO_LARGE
        if self._fault:
            self.close()
        self._wake()

    def _decrypt(self, data: bytes) -> bytes:
        try:
            for layer in self._layers:
                data = layer.feed(data)
        except TransportError as error:
            self._fault, data = error.fault, b""
        self._flush()
        return data

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the event loop."""
        self._eof = True
        self._wake()

    def close(self) -> None:
        """Aborts the connection."""
        if self._transport is not None:
            self._transport.abort()
            self._transport = None

    async def request(self, data: bytes, *, max_body_bytes: int = MAX_BODY_BYTES, no_body: bool = False) -> Response:
        """Sends a request, reads the whole response and closes the connection.

        `no_body`: the response has no body, regardless of its headers (HEAD).
        """
        self._max_bytes = MAX_HEAD_BYTES + max_body_bytes + _FRAMING_BYTES
        self.send(data)
        try:
            response = await self.read(ResponseReader(no_body=no_body, max_body_bytes=max_body_bytes))
        finally:
            self.close()
        self.expect_no_data()  # an unsolicited second response
        return response

    async def connect_tunnel(self, request: bytes) -> int:
        """Sends a CONNECT; returns its status. After 200 the connection is a tunnel to the target."""
        self.send(request)
        status = (await self.read(ResponseReader(no_body=True))).status
        if status == 200:
            self.expect_no_data()
        return status

    def expect_no_data(self) -> None:
        """Raises TransportError if the peer has sent unsolicited data."""
        if self._buffer:
            raise TransportError(Fault.PROTOCOL)

    async def start_tls(self, context: ssl.SSLContext, server_name: str) -> None:
        """Starts TLS on this connection, inside any existing layers; the certificate is verified for `server_name`."""
        self.expect_no_data()
        layer = TlsLayer(context, server_name)
        self._layers.append(layer)
        layer.feed(b"")
        self._flush()

        def handshake_finished(_: bytearray, eof: bool) -> bool | None:
            if eof and not layer.handshake_done:
                raise TransportError(Fault.CLOSED)
            return layer.handshake_done or None

        await self.read(handshake_finished)

    def send(self, data: bytes) -> None:
        """Writes through all TLS layers."""
        if self._transport is None or self._eof:
            raise TransportError(self._fault or Fault.CLOSED)
        if self._layers:
            self._layers[-1].encrypt(data)
            self._flush()
        else:
            self._transport.write(data)

    async def read(self, reader: Reader[Result]) -> Result:
        """Waits until the reader returns a result; the reader gets the receive buffer and whether the stream has ended."""
        while True:
            if self._fault:
                raise TransportError(self._fault)
            result = reader(self._buffer, self._eof and not self._is_truncated())
            if result is not None:
                return result
            if self._eof:
                raise TransportError(Fault.PROTOCOL if self._buffer else Fault.CLOSED)
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter

    def _is_truncated(self) -> bool:
        """True if TLS ended without close_notify: then the end of the stream does not end a body of unknown length."""
        return any(layer.handshake_done and not layer.closed_by_peer for layer in self._layers)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _flush(self) -> None:
        """Sends the pending bytes of each layer, encrypted by the layers around it."""
        for index in range(len(self._layers) - 1, -1, -1):
            data = self._layers[index].outgoing()
            if not data:
                continue
            if index:
                self._layers[index - 1].encrypt(data)
            elif self._transport is not None and not self._transport.is_closing():
                self._transport.write(data)
