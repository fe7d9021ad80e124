"""The judge as a server: over HTTP and HTTPS on loopback for the farm, or on any host by `proxypool judge serve`.

Its signed response contains what it received (peer address, headers in order, http or https). A farm with a single source
address runs in the judge's process and announces the exit IP of each of its connections.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast
from urllib.parse import parse_qs, urlsplit

from proxypool.checks.judge.answer import NONCE, build_answer
from proxypool.checks.judge.canary import canary_page

BACKLOG = 1_024
MAX_HEAD_BYTES = 32_768
IDLE_SECONDS = 30
HTTP_ERRORS = {400: b"Bad Request", 405: b"Method Not Allowed"}

Headers = list[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """A judge's key (None: responses are unsigned), the countries of exit IPs, and the farm's announced connections."""

    key: bytes | None
    countries: Mapping[str, str] = field(default_factory=dict)  # exit IP → country
    announced: dict[tuple[str, int], str] = field(default_factory=dict)  # source address of a connection → exit IP

    def body(self, nonce: str, peer: str, headers: Headers, scheme: str) -> bytes:
        """The response to one request."""
        return build_answer(
            self.key, nonce=nonce, peer=peer, headers=headers, scheme=scheme, country=self.countries.get(peer)
        )


class JudgeConnection(asyncio.Protocol):
    """A client's connection to the judge. It registers itself in `transports` while it is open."""

    def __init__(self, judge: Judge, scheme: str, transports: set[asyncio.Transport]) -> None:
        self._judge, self._scheme, self._transports = judge, scheme, transports
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Starts the idle timeout."""
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")[:2]
        self._peer = self._judge.announced.get(peer, peer[0])
        self._transports.add(self._transport)
        self._idle = asyncio.get_running_loop().call_later(IDLE_SECONDS, transport.close)

    def connection_lost(self, _: Exception | None) -> None:
        """Removes the connection from the set."""
        self._transports.discard(self._transport)
        self._idle.cancel()

    def data_received(self, data: bytes) -> None:
        """Responds to each complete request."""
        self._received += data
        while (end := self._received.find(b"\r\n\r\n")) >= 0 and not self._transport.is_closing():
            head, self._received = self._received[:end], self._received[end + 4 :]
            self._respond(head)
        if len(self._received) > MAX_HEAD_BYTES:
            self._transport.close()

    def _respond(self, head: bytes) -> None:
        if head.startswith(b"GET /ip "):  # for people: the format of httpbin.org, unsigned
            return self._send(json.dumps({"origin": self._peer}).encode() + b"\n", keep=False)
        try:
            method, parameter, nonce, headers = read_head(head)
        except ValueError:
            return self._send(b"", status=400, keep=False)
        if method != "GET":
            return self._send(b"", status=405, keep=False)
        if parameter == "canary":
            return self._send(
                canary_page(self._judge.key, nonce), keep=not _closes(headers), kind=b"text/html; charset=utf-8"
            )
        body = self._judge.body(nonce, self._peer, headers, self._scheme)
        return self._send(body, keep=not _closes(headers))

    def _send(self, body: bytes, *, status: int = 200, keep: bool, kind: bytes = b"application/json") -> None:
        reason = HTTP_ERRORS.get(status, b"OK")
        connection = b"keep-alive" if keep else b"close"
        self._transport.write(
            b"HTTP/1.1 %d %s\r\nContent-Type: %s\r\nCache-Control: no-store\r\n"
            b"Content-Length: %d\r\nConnection: %s\r\n\r\n%s" % (status, reason, kind, len(body), connection, body)
        )
        if not keep:
            self._transport.close()


def read_head(head: bytes) -> tuple[str, str, str, Headers]:
    """Method, the parameter's name (nonce or canary) and its 32 digits, and headers in order. Raises ValueError."""
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, version = first.split(" ")
    if not version.startswith("HTTP/1."):
        raise ValueError(version)
    query = parse_qs(urlsplit(target).query)
    parameter = "canary" if "canary" in query else "nonce"
    nonce = query.get(parameter, [""])[0]
    if not NONCE.fullmatch(nonce):
        raise ValueError("nonce")
    headers = []
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon:
            raise ValueError("header")
        headers.append((name, value.strip()))
    return method, parameter, nonce, headers


def _closes(headers: Headers) -> bool:
    return any(name.lower() == "connection" and value.lower() == "close" for name, value in headers)


@contextlib.asynccontextmanager
async def serve_judge(
    judge: Judge, *, port: int, https_port: int = 0, context: ssl.SSLContext | None = None, host: str = "127.0.0.1"
) -> AsyncIterator[tuple[int, int]]:
    """Serves in the block; yields the ports of HTTP and HTTPS (0 without a TLS context). Port 0 selects a free one."""
    loop, transports = asyncio.get_running_loop(), set[asyncio.Transport]()
    servers = [
        await loop.create_server(lambda: JudgeConnection(judge, "http", transports), host, port, backlog=BACKLOG)
    ]
    if context is not None:
        secure = await loop.create_server(
            lambda: JudgeConnection(judge, "https", transports), host, https_port, backlog=BACKLOG, ssl=context
        )
        servers.append(secure)
    try:
        ports = [int(server.sockets[0].getsockname()[1]) for server in servers]
        yield ports[0], ports[1] if context is not None else 0
    finally:
        for server in servers:
            server.close()
        await abort_all(transports)


def serve_command(*, host: str, port: int, key_file: Path | None, as_json: bool = False) -> None:
    """`proxypool judge serve`: a judge over plain HTTP on this host until Ctrl-C; HTTPS needs a TLS proxy in front of it.

    The key is the file's text without surrounding white space, the same as in the deployed pool's secret.
    """
    key = key_file.read_text().strip().encode() if key_file else None
    asyncio.run(_serve_until_stopped(Judge(key=key), host, port, as_json))


async def _serve_until_stopped(judge: Judge, host: str, port: int, as_json: bool) -> None:
    async with serve_judge(judge, host=host, port=port) as (bound, _):
        url = f"http://{host}:{bound}/"
        print(json.dumps({"judge_url": url}) if as_json else f"judge: {url}", flush=True)
        await until_stopped()


async def abort_all(transports: set[asyncio.Transport]) -> None:
    """Aborts connections and waits until each has removed itself from the set."""
    for transport in list(transports):
        transport.abort()
    while transports:  # noqa: ASYNC110 - each is removed in the next iteration of the loop
        await asyncio.sleep(0.001)


async def until_stopped() -> None:
    """Returns on SIGTERM or SIGINT."""
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    await stopped.wait()
