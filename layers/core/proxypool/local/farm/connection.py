"""One client of one of the farm's proxies: its request, what the proxy's kind makes of it, then bytes both ways."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from proxypool.local.farm.behavior import (
    ALTERATIONS,
    CAPTIVE_PAGE,
    FLOOD_HEAD,
    REFUSED_PASSWORD,
    Request,
    aged,
    has_password,
    looks_like_judging,
    read_request,
    refuse,
    reply,
)
from proxypool.local.farm.kinds import Act, Spec
from proxypool.local.farm.socks import REFUSED, SocksRefused, SocksTalk

if TYPE_CHECKING:
    from proxypool.local.farm.server import Farm

MAX_HEAD_BYTES = 65_536
DRIP_SECONDS = 0.25
FLOOD_BYTES = 8_192
FLOOD_AHEAD_BYTES = 1_048_576  # kept for a client that does not read

Alteration = Callable[[bytes], bytes]


class Upstream(asyncio.Protocol):
    """The connection to the target: what comes goes to the client, at the end when it must be altered first."""

    def __init__(self, farm: Farm, client: asyncio.Transport, alter: Alteration | None) -> None:
        self._farm, self._client, self._alter = farm, client, alter
        self._held = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Has the farm know of it."""
        self._transport = cast(asyncio.Transport, transport)
        self._sockname = transport.get_extra_info("sockname")[:2]
        self._farm.transports.add(self._transport)

    def data_received(self, data: bytes) -> None:
        """Passes on or keeps."""
        if self._alter:
            self._held += data
        else:
            self._client.write(data)

    def connection_lost(self, _: Exception | None) -> None:
        """The target is done, so the client is."""
        self._farm.transports.discard(self._transport)
        self._farm.forget(self._sockname)
        if self._alter and self._held:
            self._client.write(self._alter(self._held))
        self._client.close()


class ProxyConnection(asyncio.Protocol):
    """One client's connection."""

    def __init__(self, farm: Farm, spec: Spec) -> None:
        self._farm, self._spec = farm, spec
        self._received = b""
        self._busy = False  # the request is there
        self._work: asyncio.Task[None] | None = None
        self._upstream: asyncio.Transport | None = None
        protocol = spec.kind.protocol
        self._socks = SocksTalk(protocol, spec.kind.asks_password) if protocol.startswith("socks") else None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keeps the way back."""
        self._client = cast(asyncio.Transport, transport)
        self._farm.transports.add(self._client)

    def connection_lost(self, _: Exception | None) -> None:
        """The client is gone: so goes what was opened for it."""
        self._farm.transports.discard(self._client)
        if self._upstream:
            self._upstream.close()
        if self._work:
            self._work.cancel()

    def data_received(self, data: bytes) -> None:
        """Before there is a target: collects the request. Afterwards: passes on."""
        if self._upstream:
            self._upstream.write(data)
        elif self._busy:
            self._received += data
        elif self._socks:
            self._step_socks(self._socks, data)
        elif self._spec.kind.answers:
            self._received += data
            if b"\r\n\r\n" in self._received:
                self._begin()
            elif len(self._received) > MAX_HEAD_BYTES:
                self._client.close()

    def _step_socks(self, talk: SocksTalk, data: bytes) -> None:
        try:
            said, request = talk.step(data)
        except SocksRefused as no:
            return self._say(no.reply)
        except ValueError:
            return self._client.close()
        self._client.write(said)
        if request:
            self._busy = True
            self._forward(request, REFUSED[talk.protocol])
        return None

    def _begin(self) -> None:
        head, _, rest = self._received.partition(b"\r\n\r\n")
        self._received, self._busy = b"", True
        kind = self._spec.kind
        if kind.asks_password and not has_password(head):
            return self._say(REFUSED_PASSWORD)
        try:
            request = read_request(head, rest, self._told())
        except ValueError:
            return self._say(refuse("400 Bad Request"))
        act = kind.tunnel_act if request.tunnel else kind.act
        answer = reply(act, head)
        if answer is not None:
            return self._say(answer, ends=act is not Act.BABBLE_AFTER)
        if act in (Act.DRIP, Act.FLOOD, Act.HALF_CLOSE):
            self._work = asyncio.create_task(self._stall(act))
            return None
        if act is Act.STALE:
            request = replace(request, first=aged(request.first))
        if act is Act.INTERCEPT:
            request = replace(request, port=self._farm.intercept_port)
        honest = act is Act.AWARE and looks_like_judging(head)
        return self._forward(request, refuse("502 Bad Gateway"), None if honest else ALTERATIONS.get(act))

    def _told(self) -> list[bytes]:
        """The headers by which a proxy tells that it is one, and a leaking one tells on its caller."""
        act = self._spec.kind.act
        told = [b"Via: 1.1 farm"] if act in (Act.VIA, Act.LEAK) else []
        if act is Act.LEAK:
            told.append(self._spec.leak.format(ip=self._client.get_extra_info("peername")[0]).encode())
        return told

    async def _stall(self, act: Act) -> None:
        """Keeps the client busy for as long as it stays."""
        if act is Act.HALF_CLOSE:
            return self._client.write_eof()
        drops = refuse("200 OK", body=CAPTIVE_PAGE)
        self._client.write(FLOOD_HEAD if act is Act.FLOOD else b"")
        while not self._client.is_closing():
            if act is Act.FLOOD:
                if self._client.get_write_buffer_size() < FLOOD_AHEAD_BYTES:
                    self._client.write(b"x" * FLOOD_BYTES)
                await asyncio.sleep(0.001)
            else:
                self._client.write(drops[:1])
                drops = drops[1:] or b" "
                await asyncio.sleep(DRIP_SECONDS)
        return None

    def _forward(self, request: Request, refusal: bytes, alter: Alteration | None = None) -> None:
        self._work = asyncio.create_task(self._open(request, refusal, alter))

    async def _open(self, request: Request, refusal: bytes, alter: Alteration | None) -> None:
        if self._spec.delay_seconds:
            await asyncio.sleep(self._spec.delay_seconds)
        try:
            upstream = await self._farm.connect(self._spec, request, Upstream(self._farm, self._client, alter))
        except OSError:
            return self._say(refusal)
        if self._client.is_closing():
            return upstream.close()
        self._upstream = upstream
        if request.tunnel:
            self._client.write(request.granted)
        if first := request.first + self._received:
            self._upstream.write(first)
        return None

    def _say(self, response: bytes, *, ends: bool = True) -> None:
        self._busy = True
        if response:
            self._client.write(response)
        if ends:
            self._client.close()
