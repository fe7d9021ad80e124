"""The farm: real forward proxies on loopback in one process, good and bad ones, whose truth the manifest tells.

Each proxy listens on an address of its own (127.64.x.y) and connects from it, so that the judge sees as many exits as
there are proxies. Where only 127.0.0.1 can be bound (macOS) each has a port instead, and its exit is announced to the
judge by a PROXY-protocol line. No proxy connects anywhere but to loopback.
"""

from __future__ import annotations

import argparse
import asyncio
import ipaddress
import json
import os
import socket
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from proxypool.local.certificates import local_certificates
from proxypool.local.farm_kinds import DEFAULT_MIX, DEFAULT_SLOW, PASSWORD, USER, Spec, plan, read_mix
from proxypool.local.judge import Judge, serve_judge, until_stopped

LOOPBACK = "127.0.0.1"
PROXY_PORT = 8118  # of each address; another one where it is taken
FIRST_PORT = 18_118  # of the one address, a port per proxy
NAMES = ("localhost", "judge.test")
BASIC = b"basic " + b64encode(f"{USER}:{PASSWORD}".encode())
ADVERT = b"<script src=//ads.invalid/x.js></script>"
ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"
MAX_HEAD_BYTES = 65_536


def refuse(status: str, *headers: str) -> bytes:
    """A whole response without a body."""
    lines = [f"HTTP/1.1 {status}", *headers, "Content-Length: 0", "Connection: close"]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


REFUSED_PASSWORD = refuse("407 Proxy Authentication Required", 'Proxy-Authenticate: Basic realm="farm"')


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a client asks a proxy: where to connect, what to send there first; `tunnel` for CONNECT."""

    host: str
    port: int
    first: bytes
    tunnel: bool


def read_request(head: bytes, rest: bytes, extra: Sequence[bytes] = ()) -> Request:
    """The request of a head in absolute form or CONNECT; `extra` header lines are added. Raises ValueError."""
    first, *lines = head.split(b"\r\n")
    method, target, version = first.split(b" ")
    tunnel = method == b"CONNECT"
    url = urlsplit(("//" if tunnel else "") + target.decode("ascii"))
    if not url.hostname or (not tunnel and url.scheme != "http"):
        raise ValueError("neither CONNECT nor absolute form")
    if tunnel:
        return Request(host=url.hostname, port=url.port or 443, first=rest, tunnel=True)
    path = (url.path or "/") + (f"?{url.query}" if url.query else "")
    kept = [line for line in lines if not line.lower().startswith((b"proxy-", b"connection:"))]
    sent = b"\r\n".join([b"%s %s %s" % (method, path.encode(), version), *kept, *extra, b"Connection: close"])
    return Request(host=url.hostname, port=url.port or 80, first=sent + b"\r\n\r\n" + rest, tunnel=False)


def has_password(head: bytes) -> bool:
    """Whether the head carries the farm's credentials."""
    name = b"proxy-authorization:"
    given = [line[len(name) :].strip() for line in head.split(b"\r\n") if line.lower().startswith(name)]
    return any(value[:6].lower() + value[6:] == BASIC for value in given)


def with_advert(response: bytes) -> bytes:
    """The response with something put behind its body, its length set right."""
    head, _, body = response.partition(b"\r\n\r\n")
    lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"content-length:")]
    return b"\r\n".join([*lines, b"Content-Length: %d" % len(body + ADVERT)]) + b"\r\n\r\n" + body + ADVERT


def loopback_of(host: str) -> str | None:
    """The loopback address to connect to, or None: the farm goes nowhere else."""
    if host in NAMES:
        return LOOPBACK
    try:
        return host if ipaddress.IPv4Address(host).is_loopback else None
    except ValueError:
        return None


class Upstream(asyncio.Protocol):
    """The connection to the target: what comes goes to the client, at the end when it must be altered first."""

    def __init__(self, client: asyncio.Transport, *, altered: bool) -> None:
        self._client, self._altered = client, altered
        self._held = b""

    def data_received(self, data: bytes) -> None:
        """Passes on or keeps."""
        if self._altered:
            self._held += data
        else:
            self._client.write(data)

    def connection_lost(self, _: Exception | None) -> None:
        """The target is done, so the client is."""
        if self._held:
            self._client.write(with_advert(self._held))
        self._client.close()


class ProxyConnection(asyncio.Protocol):
    """One client of one proxy: its request, then bytes both ways."""

    def __init__(self, farm: Farm, spec: Spec) -> None:
        self._farm, self._spec = farm, spec
        self._received = b""
        self._upstream: asyncio.Transport | None = None
        self._opening: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keeps the way back."""
        assert isinstance(transport, asyncio.Transport)
        self._client = transport

    def connection_lost(self, _: Exception | None) -> None:
        """The client is gone: so goes what was opened for it."""
        if self._upstream:
            self._upstream.close()
        elif self._opening:
            self._opening.cancel()

    def data_received(self, data: bytes) -> None:
        """Before there is a target: collects the head. Afterwards: passes on."""
        if self._upstream:
            self._upstream.write(data)
        elif self._spec.kind.answers:
            self._received += data
            if self._opening is None and b"\r\n\r\n" in self._received:
                self._begin()
            elif len(self._received) > MAX_HEAD_BYTES:
                self._client.close()

    def _begin(self) -> None:
        head, _, rest = self._received.partition(b"\r\n\r\n")
        self._received = b""
        if self._spec.kind.asks_password and not has_password(head):
            return self._refuse(REFUSED_PASSWORD)
        try:
            request = read_request(head, rest, self._told())
        except ValueError:
            return self._refuse(refuse("400 Bad Request"))
        self._opening = asyncio.create_task(self._open(request))
        return None

    def _told(self) -> list[bytes]:
        """The headers by which a leaking proxy tells on its caller."""
        if not self._spec.kind.leaks:
            return []
        caller = self._client.get_extra_info("peername")[0]
        return [b"X-Forwarded-For: " + caller.encode(), b"Via: 1.1 farm"]

    async def _open(self, request: Request) -> None:
        await asyncio.sleep(self._spec.delay_seconds)
        altered = self._spec.kind.tampers and not request.tunnel
        try:
            self._upstream = await self._farm.connect(self._spec, request, Upstream(self._client, altered=altered))
        except OSError:
            return self._refuse(refuse("502 Bad Gateway"))
        if request.tunnel:
            self._client.write(ESTABLISHED)
        self._upstream.write(request.first + self._received)
        return None

    def _refuse(self, response: bytes) -> None:
        self._client.write(response)
        self._client.close()


class Farm:
    """Proxies that listen while the `async with` block runs. `judge_ports` get PROXY lines when addresses are shared.

    `own_addresses` None: as this machine can. Where it is False, `judge` must be the one that listens here.
    """

    def __init__(self, specs: Sequence[Spec], judge: Judge, judge_ports: Sequence[int],
                 *, own_addresses: bool | None = None) -> None:  # fmt: skip
        self.specs = specs
        self.own_addresses = can_bind("127.0.0.2") if own_addresses is None else own_addresses
        self.places: list[tuple[str, int]] = []  # where each proxy listens, in the specs' order
        self._judge, self._judge_ports = judge, frozenset(judge_ports)
        self._sockets: list[socket.socket] = []
        self._servers: list[asyncio.Server] = []

    async def __aenter__(self) -> Farm:
        """Binds all; a dead proxy's port is bound too, so that nobody else answers there, but never listens."""
        loop = asyncio.get_running_loop()
        port = PROXY_PORT if self.own_addresses else FIRST_PORT
        for index, spec in enumerate(self.specs):
            bound = self._bind(spec, port if self.own_addresses else port + index)
            self._sockets.append(bound)
            self.places.append(bound.getsockname())
            if self.own_addresses:
                port = self.places[0][1]
            if spec.kind.listens:
                server = await loop.create_server(lambda spec=spec: ProxyConnection(self, spec), sock=bound)  # type: ignore[misc]
                self._servers.append(server)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Ends listening; connections end with their clients."""
        for server in self._servers:
            server.close()
        for bound in self._sockets:
            bound.close()

    def _bind(self, spec: Spec, port: int) -> socket.socket:
        bound = socket.socket()
        if spec.kind.listens:  # a dead one's address is not to be shared with a farm that listens on it
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        host = spec.exit_ip if self.own_addresses else LOOPBACK
        try:
            bound.bind((host, port))
            if spec.kind.listens:
                bound.listen()  # two farms may bind one address; only one may listen
        except OSError:
            bound.close()
            return self._bind(spec, 0)
        return bound

    async def connect(self, spec: Spec, request: Request, upstream: Upstream) -> asyncio.Transport:
        """A connection to the request's target, seen there as the proxy's exit. Raises OSError."""
        host = loopback_of(request.host)
        if host is None:
            raise OSError("the farm connects to loopback alone")
        loop, outgoing = asyncio.get_running_loop(), socket.socket()
        try:
            outgoing.bind((spec.exit_ip if self.own_addresses else LOOPBACK, 0))
            outgoing.setblocking(False)
            line = self._announce(spec, outgoing, host, request.port)
            await loop.sock_connect(outgoing, (host, request.port))
            await loop.sock_sendall(outgoing, line)
            transport, _ = await loop.create_connection(lambda: upstream, sock=outgoing)
        except BaseException:
            self._judge.announced.discard(outgoing.getsockname())
            outgoing.close()
            raise
        return transport

    def _announce(self, spec: Spec, outgoing: socket.socket, host: str, port: int) -> bytes:
        """The PROXY line to send first, the judge told to expect it; nothing where the exit shows by itself."""
        if self.own_addresses or port not in self._judge_ports:
            return b""
        own: tuple[str, int] = outgoing.getsockname()
        self._judge.announced.add(own)
        return f"PROXY TCP4 {spec.exit_ip} {host} {own[1]} {port}\r\n".encode()

    def lines(self) -> str:
        """The list that a source has: one line per proxy."""
        return "".join(spec.line(*place) + "\n" for spec, place in zip(self.specs, self.places, strict=True))

    def entries(self) -> list[dict[str, Any]]:
        """The manifest's proxies, with the truth about each."""
        return [spec.entry(*place) for spec, place in zip(self.specs, self.places, strict=True)]


def can_bind(host: str) -> bool:
    """Whether this machine lets us listen on the address."""
    with socket.socket() as tried:
        try:
            tried.bind((host, 0))
        except OSError:
            return False
    return True


async def run(options: argparse.Namespace) -> None:
    """Farm and judge until SIGTERM; farm.json appears in the state folder when all listen."""
    folder: Path = options.state_dir
    certificates = local_certificates(folder)
    specs = plan(options.count, options.mix, options.seed, options.slow)
    key = options.key_file.read_text().strip().encode() if options.key_file else None
    judge = Judge(key=key, places={spec.exit_ip: spec.country for spec in specs})
    context = certificates.server_context()
    async with (
        serve_judge(judge, port=options.judge_port, https_port=options.judge_https_port, context=context) as ports,
        Farm(specs, judge, ports, own_addresses=False if options.one_address else None) as farm,
    ):
        write_manifest(folder, farm, ports, certificates.ca_file)
        await until_stopped()


def write_manifest(folder: Path, farm: Farm, ports: tuple[int, int], ca_file: Path) -> None:
    """Writes farm-list.txt and farm.json, the latter in one step: who sees it sees all of it."""
    list_file, unfinished = folder / "farm-list.txt", folder / "farm.json.part"
    list_file.write_text(farm.lines())
    manifest = {
        "pid": os.getpid(),
        "judge_url": f"http://{LOOPBACK}:{ports[0]}/",
        "judge_https_url": f"https://{LOOPBACK}:{ports[1]}/",
        "ca_file": str(ca_file),
        "list_file": str(list_file),
        "proxies": farm.entries(),
    }
    unfinished.touch(mode=0o600)
    unfinished.write_text(json.dumps(manifest, indent=1))
    unfinished.replace(folder / "farm.json")


def seconds_range(text: str) -> tuple[float, float]:
    """`1,3`: from one to three seconds."""
    least, most = text.split(",")
    return float(least), float(most)


def main() -> None:
    """The command line of `python -m proxypool.local.farm`."""
    parser = argparse.ArgumentParser(description="A farm of forward proxies on loopback, and its judge.")
    parser.add_argument("--judge-port", type=int, default=0)
    parser.add_argument("--judge-https-port", type=int, default=0)
    parser.add_argument("--key-file", type=Path, help="the text that signs the judge's answers")
    parser.add_argument("--state-dir", type=Path, required=True, help="for farm.json, the list and certificates")
    parser.add_argument("-n", "--count", type=int, default=100)
    parser.add_argument("--mix", type=read_mix, default=DEFAULT_MIX, help="for example fast=5,slow=2,dead=1")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--slow", type=seconds_range, default=DEFAULT_SLOW, help="seconds, for example 1,3")
    parser.add_argument("--one-address", action="store_true", help="as on macOS: 127.0.0.1, one port per proxy")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
