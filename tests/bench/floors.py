"""The baselines of the checker: one request per proxy, nothing verified, with as little Python as asyncio allows.

`raw` is an asyncio.Protocol, `streams_tls` asyncio's streams with CONNECT and TLS; both on asyncio's own loop.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from typing import Any, cast
from urllib.parse import urlsplit

from proxypool.proxies.proxy import Proxy

NONCE = "0" * 32
SECONDS = 5.0

Ask = Callable[[Proxy], Awaitable[dict[str, Any]]]


class RawClient(asyncio.Protocol):
    """Writes the request, reads the status line, Content-Length and the body."""

    __slots__ = ("buffer", "done", "request", "transport")

    def __init__(self, request: bytes, done: asyncio.Future[int]) -> None:
        self.request, self.done, self.buffer = request, done, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Sends the request."""
        self.transport = cast(asyncio.Transport, transport)
        self.transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        """Sets the status once the body is complete."""
        self.buffer = received = self.buffer + data
        head = received.find(b"\r\n\r\n")
        if head > 0 and not self.done.done():
            length = received.find(b"Content-Length: ")
            if 0 < length < head and len(received) - head - 4 >= int(
                received[length + 16 : received.find(b"\r\n", length)]
            ):
                self.done.set_result(int(received[9:12]))
                self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Fails the request if it is not complete."""
        if not self.done.done():
            self.done.set_exception(exc or EOFError())


def raw(manifest: dict[str, Any]) -> Ask:
    """A plain GET of the judge."""
    netloc = urlsplit(manifest["judge_url"]).netloc
    request = (
        f"GET http://{netloc}/?nonce={NONCE} HTTP/1.1\r\nHost: {netloc}\r\n"
        "User-Agent: x\r\nAccept: */*\r\nConnection: close\r\n\r\n"
    ).encode()

    async def ask(proxy: Proxy) -> dict[str, Any]:
        loop = asyncio.get_running_loop()
        done, transport = loop.create_future(), None
        try:
            async with asyncio.timeout(SECONDS):
                transport, _ = await loop.create_connection(lambda: RawClient(request, done), proxy.host, proxy.port)
                return _verdict(await done)
        finally:
            if transport:
                transport.abort()

    return ask


def streams_tls(manifest: dict[str, Any]) -> Ask:
    """CONNECT, TLS without verification, a GET of the judge."""
    netloc = urlsplit(manifest["judge_https_url"]).netloc
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connect = f"CONNECT {netloc} HTTP/1.1\r\nHost: {netloc}\r\n\r\n".encode()
    request = (
        f"GET /?nonce={NONCE} HTTP/1.1\r\nHost: {netloc}\r\nUser-Agent: x\r\nAccept: */*\r\nConnection: close\r\n\r\n"
    ).encode()

    async def ask(proxy: Proxy) -> dict[str, Any]:
        writer = None
        try:
            async with asyncio.timeout(SECONDS):
                reader, writer = await asyncio.open_connection(proxy.host, proxy.port)
                writer.write(connect)
                if b" 200 " not in await reader.readuntil(b"\r\n\r\n"):
                    return _verdict(0)
                await writer.start_tls(context, server_hostname="judge.test")
                writer.write(request)
                head = await reader.readuntil(b"\r\n\r\n")
                length = head.index(b"Content-Length: ")
                await reader.readexactly(int(head[length + 16 : head.index(b"\r\n", length)]))
                return _verdict(int(head[9:12]))
        finally:
            if writer:
                writer.transport.abort()

    return ask


def _verdict(status: int) -> dict[str, Any]:
    return {"status": "active" if status == 200 else "dead"}
