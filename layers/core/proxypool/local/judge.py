"""The judge as a plain server: over HTTP and HTTPS on loopback beside the farm, or on any host by `proxypool judge serve`.

It tells the caller what it saw (peer, headers in order, http or https), signed. A farm that has but one address to
connect from announces each connection's exit by a PROXY-protocol line; from anybody else such a line is a bad request.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import signal
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from proxypool.checks.canary import canary
from proxypool.checks.judge import NONCE, answer

BACKLOG = 1_024
MAX_HEAD_BYTES = 32_768
IDLE_SECONDS = 30
PROXY_LINE = re.compile(rb"PROXY TCP4 ([0-9.]{7,15}) [0-9.]{7,15} [0-9]+ [0-9]+\r\n")
MAX_PROXY_LINE_BYTES = 107  # the PROXY protocol's own limit (version 1)
HTTP_ERRORS = {400: b"Bad Request", 405: b"Method Not Allowed"}

Headers = list[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """What a judge knows: its key (None: answers are unsigned), where exits stand, and the farm's open connections."""

    key: bytes | None
    places: Mapping[str, str] = field(default_factory=dict)  # exit IP → country
    announced: set[tuple[str, int]] = field(default_factory=set)  # the farm's own sockets: these send a PROXY line

    def body(self, nonce: str, peer: str, headers: Headers, scheme: str) -> bytes:
        """The signed answer to one request."""
        return answer(self.key, nonce=nonce, peer=peer, headers=headers, scheme=scheme, country=self.places.get(peer))


class Conversation(asyncio.Protocol):
    """One connection to the judge: requests in turn, each answered as it becomes complete."""

    def __init__(self, judge: Judge, peer: str, scheme: str) -> None:
        self._judge, self._peer, self._scheme = judge, peer, scheme
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Closes a connection that says nothing for long."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._idle = asyncio.get_running_loop().call_later(IDLE_SECONDS, transport.close)

    def connection_lost(self, _: Exception | None) -> None:
        """Nothing is kept."""
        self._idle.cancel()

    def data_received(self, data: bytes) -> None:
        """Answers every request that is now complete."""
        self._received += data
        while (end := self._received.find(b"\r\n\r\n")) >= 0 and not self._transport.is_closing():
            head, self._received = self._received[:end], self._received[end + 4 :]
            self._answer(head)
        if len(self._received) > MAX_HEAD_BYTES:
            self._transport.close()

    def _answer(self, head: bytes) -> None:
        try:
            method, asks, nonce, headers = read_head(head)
        except ValueError:
            return self._send(b"", status=400, keep=False)
        if method != "GET":
            return self._send(b"", status=405, keep=False)
        if asks == "canary":
            return self._send(
                canary(self._judge.key, nonce), keep=not _closes(headers), kind=b"text/html; charset=utf-8"
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
    """Method, what is asked for (nonce or canary), its 32 digits, and headers in order; raises ValueError for any other request."""
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, version = first.split(" ")
    if not version.startswith("HTTP/1."):
        raise ValueError(version)
    query = parse_qs(urlsplit(target).query)
    asks = "canary" if "canary" in query else "nonce"
    nonce = query.get(asks, [""])[0]
    if not NONCE.fullmatch(nonce):
        raise ValueError("nonce")
    headers = []
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon:
            raise ValueError("header")
        headers.append((name, value.strip()))
    return method, asks, nonce, headers


def _closes(headers: Headers) -> bool:
    return any(name.lower() == "connection" and value.lower() == "close" for name, value in headers)


@contextlib.asynccontextmanager
async def serve_judge(
    judge: Judge, *, port: int, https_port: int = 0, context: ssl.SSLContext | None = None, host: str = "127.0.0.1"
) -> AsyncIterator[tuple[int, int]]:
    """Serves while the block runs; yields the ports of HTTP and HTTPS (0 without a TLS context). Port 0: a free one."""
    doors = [_Door(judge, host, port, None)]
    if context is not None:
        doors.append(_Door(judge, host, https_port, context))
    try:
        yield doors[0].port, doors[1].port if context is not None else 0
    finally:
        for door in doors:
            await door.close()


class _Door:
    """One listening port. It accepts by hand, for the PROXY line stands before TLS begins."""

    def __init__(self, judge: Judge, host: str, port: int, context: ssl.SSLContext | None) -> None:
        self._judge, self._context = judge, context
        self._listener = socket.create_server((host, port), backlog=BACKLOG)
        self._listener.setblocking(False)
        self.port: int = self._listener.getsockname()[1]
        self._welcomes: set[asyncio.Task[None]] = set()
        self._accepting = asyncio.create_task(self._accept())

    async def close(self) -> None:
        """Ends accepting and what is half accepted."""
        tasks = {self._accepting, *self._welcomes}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._listener.close()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            connection, peer = await loop.sock_accept(self._listener)
            task = asyncio.create_task(self._welcome(connection, peer[:2]))
            self._welcomes.add(task)
            task.add_done_callback(self._welcomes.discard)

    async def _welcome(self, connection: socket.socket, peer: tuple[str, int]) -> None:
        try:
            exit_ip = await self._exit_ip(connection, peer)
            scheme = "https" if self._context else "http"
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: Conversation(self._judge, exit_ip, scheme), connection, ssl=self._context
            )
        except (OSError, ValueError):  # no PROXY line, no TLS handshake, or gone: its own loss (ssl errors are OSError)
            connection.close()

    async def _exit_ip(self, connection: socket.socket, peer: tuple[str, int]) -> str:
        if peer not in self._judge.announced:
            return peer[0]
        self._judge.announced.remove(peer)  # the system gives this port to a stranger some day
        return await _read_proxy_line(connection)


async def _read_proxy_line(connection: socket.socket) -> str:
    """The exit's address from the line; reads not one byte further, for TLS may follow. Raises ValueError."""
    line = b""
    while not line.endswith(b"\n"):
        byte = await asyncio.get_running_loop().sock_recv(connection, 1)
        line += byte
        if not byte or len(line) > MAX_PROXY_LINE_BYTES:
            raise ValueError("no PROXY line")
    found = PROXY_LINE.fullmatch(line)
    if not found:
        raise ValueError("no PROXY line")
    return found[1].decode()


def serve_command(*, host: str, port: int, key_file: Path | None) -> None:
    """`proxypool judge serve`: a judge over plain HTTP on this host until Ctrl-C; put a TLS end before it for HTTPS.

    The key is the file's text without the white space around it: the same as in the deployed pool's secret.
    """
    key = key_file.read_text().strip().encode() if key_file else None
    asyncio.run(_serve_until_stopped(Judge(key=key), host, port))


async def _serve_until_stopped(judge: Judge, host: str, port: int) -> None:
    async with serve_judge(judge, host=host, port=port) as (bound, _):
        print(f"judge: http://{host}:{bound}/", flush=True)
        await until_stopped()


async def until_stopped() -> None:
    """Returns at SIGTERM or SIGINT."""
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    await stopped.wait()
