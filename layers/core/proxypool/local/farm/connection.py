"""A client's connection to a proxy of the farm: its request, the behavior of the proxy's kind, then bytes both ways."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import cast

from proxypool.local.farm.behavior import (
    ALTERATIONS,
    CAPTIVE_PAGE,
    FLOOD_HEAD,
    REFUSED_PASSWORD,
    Request,
    canned_response,
    error_response,
    has_nonce,
    has_password,
    read_request,
    with_close,
    with_old_nonce,
)
from proxypool.local.farm.exits import Exits
from proxypool.local.farm.kinds import Act, Spec
from proxypool.local.farm.socks import REFUSED, SocksHandshake, SocksRefused

MAX_HEAD_BYTES = 65_536
DRIP_SECONDS = 0.25
FLOOD_BYTES = 8_192
FLOOD_BUFFER_BYTES = 1_048_576  # at most, for a client that does not read

Alteration = Callable[[bytes], bytes]


class Upstream(asyncio.Protocol):
    """The connection to the target: its bytes go to the client. A response that is altered is sent when it is complete.

    The response to a plain request (`tunnel` False) gets `Connection: close`, as the proxy closes the connection after it.
    """

    def __init__(self, exits: Exits, client: asyncio.Transport, *, tunnel: bool, alter: Alteration | None) -> None:
        self._exits, self._client, self._alter = exits, client, alter
        self._is_head_sent = tunnel
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Registers the connection."""
        self._transport = cast(asyncio.Transport, transport)
        self._sockname = transport.get_extra_info("sockname")[:2]
        self._exits.transports.add(self._transport)

    def data_received(self, data: bytes) -> None:
        """Forwards the bytes, or collects them until they can be changed."""
        if self._is_head_sent:
            self._client.write(data)
            return
        self._buffer += data
        if self._alter is None and b"\r\n\r\n" in self._buffer:
            self._client.write(with_close(self._buffer))
            self._buffer, self._is_head_sent = b"", True

    def connection_lost(self, _: Exception | None) -> None:
        """Sends what was collected, and closes the client's connection too."""
        self._exits.transports.discard(self._transport)
        self._exits.forget(self._sockname)
        if self._buffer:
            self._client.write(self._alter(self._buffer) if self._alter else self._buffer)
        self._client.close()


class ProxyConnection(asyncio.Protocol):
    """The connection of one client."""

    def __init__(self, exits: Exits, spec: Spec) -> None:
        self._exits, self._spec = exits, spec
        self._received = b""
        self._has_request = False
        self._work: asyncio.Task[None] | None = None
        self._upstream: asyncio.Transport | None = None
        protocol = spec.kind.protocol
        self._socks = SocksHandshake(protocol, spec.kind.asks_password) if protocol.startswith("socks") else None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Registers the connection."""
        self._client = cast(asyncio.Transport, transport)
        self._exits.transports.add(self._client)

    def connection_lost(self, _: Exception | None) -> None:
        """Closes the connection to the target and ends the work for this client."""
        self._exits.transports.discard(self._client)
        if self._upstream:
            self._upstream.close()
        if self._work:
            self._work.cancel()

    def data_received(self, data: bytes) -> None:
        """Collects the request; once the target is connected, forwards the bytes."""
        if self._upstream:
            self._upstream.write(data)
        elif self._has_request:
            self._received += data
        elif self._socks:
            self._step_socks(self._socks, data)
        elif self._spec.kind.responds:
            self._received += data
            if b"\r\n\r\n" in self._received:
                self._begin()
            elif len(self._received) > MAX_HEAD_BYTES:
                self._client.close()

    def _step_socks(self, handshake: SocksHandshake, data: bytes) -> None:
        try:
            reply, request = handshake.step(data)
        except SocksRefused as refused:
            return self._respond(refused.reply)
        except ValueError:
            return self._client.close()
        self._client.write(reply)
        if request:
            self._has_request = True
            self._forward(request, REFUSED[handshake.protocol])
        return None

    def _begin(self) -> None:
        head, _, rest = self._received.partition(b"\r\n\r\n")
        self._received, self._has_request = b"", True
        kind = self._spec.kind
        if kind.asks_password and not has_password(head):
            return self._respond(REFUSED_PASSWORD)
        try:
            request = read_request(head, rest, self._proxy_headers())
        except ValueError:
            return self._respond(error_response("400 Bad Request"))
        act = kind.tunnel_act if request.tunnel else kind.act
        response = canned_response(act, head)
        if response is not None:
            return self._respond(response, close=act is not Act.GARBAGE_AFTER)
        if act in (Act.DRIP, Act.FLOOD, Act.HALF_CLOSE):
            self._work = asyncio.create_task(self._stall(act))
            return None
        if act is Act.STALE:
            request = replace(request, first=with_old_nonce(request.first))
        if act is Act.INTERCEPT:
            request = replace(request, port=self._exits.intercept_port)
        is_unaltered = act is Act.AWARE and has_nonce(head)
        return self._forward(request, error_response("502 Bad Gateway"), None if is_unaltered else ALTERATIONS.get(act))

    def _proxy_headers(self) -> list[bytes]:
        """The headers that a proxy adds: Via, and for a leaking one the client's address."""
        act = self._spec.kind.act
        headers = [b"Via: 1.1 farm"] if act in (Act.VIA, Act.LEAK) else []
        if act is Act.LEAK:
            headers.append(self._spec.leak.format(ip=self._client.get_extra_info("peername")[0]).encode())
        return headers

    async def _stall(self, act: Act) -> None:
        """Sends bytes, or none, until the client closes the connection."""
        if act is Act.HALF_CLOSE:
            return self._client.write_eof()
        page = error_response("200 OK", body=CAPTIVE_PAGE)
        self._client.write(FLOOD_HEAD if act is Act.FLOOD else b"")
        while not self._client.is_closing():
            if act is Act.FLOOD:
                if self._client.get_write_buffer_size() < FLOOD_BUFFER_BYTES:
                    self._client.write(b"x" * FLOOD_BYTES)
                await asyncio.sleep(0.001)
            else:
                self._client.write(page[:1])
                page = page[1:] or b" "
                await asyncio.sleep(DRIP_SECONDS)
        return None

    def _forward(self, request: Request, refusal: bytes, alter: Alteration | None = None) -> None:
        self._work = asyncio.create_task(self._open(request, refusal, alter))

    async def _open(self, request: Request, refusal: bytes, alter: Alteration | None) -> None:
        if self._spec.delay_seconds:
            await asyncio.sleep(self._spec.delay_seconds)
        try:
            protocol = Upstream(self._exits, self._client, tunnel=request.tunnel, alter=alter)
            upstream = await self._exits.connect(self._spec, request, protocol)
        except OSError:
            return self._respond(refusal)
        if self._client.is_closing():
            return upstream.close()
        self._upstream = upstream
        if request.tunnel:
            self._client.write(request.granted)
        if first := request.first + self._received:
            self._upstream.write(first)
        return None

    def _respond(self, response: bytes, *, close: bool = True) -> None:
        self._has_request = True
        if response:
            self._client.write(response)
        if close:
            self._client.close()
