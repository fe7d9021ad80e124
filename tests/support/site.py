"""A site and forward proxies on loopback, in a thread; the site records its requests (exit, path, headers)."""

from __future__ import annotations

import asyncio
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

Reply = tuple[int, dict[str, str], bytes]


@dataclass(frozen=True, slots=True)
class Seen:
    """One request received by the site. Header names are in lower case."""

    exit_ip: str
    method: str
    path: str
    headers: dict[str, str]


@dataclass(slots=True)
class Site:
    """A site that responds by calling `answer`, and records its requests."""

    answer: Callable[[Seen], Reply]
    port: int = 0
    seen: list[Seen] = field(default_factory=list)

    @property
    def url(self) -> str:
        """The URL of the site, without a path."""
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Handles one connection with one request."""
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            first, *lines = head.decode("latin-1").rstrip().split("\r\n")
            method, path, _ = first.split(" ")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            seen = Seen(writer.get_extra_info("peername")[0], method, path, headers)
            self.seen.append(seen)
            status, fields, body = self.answer(seen)
            extra = "".join(f"{name}: {value}\r\n" for pair in fields.items() for name, value in _lines(*pair))
            writer.write(
                f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\nConnection: close\r\n{extra}\r\n".encode()
                + body
            )
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@dataclass(slots=True)
class ForwardProxy:
    """A plain forward proxy with its own loopback address as exit. A `dead` one drops every connection, one with a `password`
    requires it; an unreachable target is a 502. `hosts` maps host names to addresses.
    """

    ip: str
    port: int = 0
    dead: bool = False
    password: str = ""
    served: int = 0
    hosts: dict[str, str] = field(default_factory=dict)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forwards one request and its response."""
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            if self.dead:
                return
            self.served += 1
            if self.password and b64encode(f"u:{self.password}".encode()) not in head:
                writer.write(b"HTTP/1.1 407 No\r\nContent-Length: 0\r\n\r\n")
                return
            _, target, _ = head.split(b"\r\n")[0].split(b" ")
            url = urlsplit(target.decode())
            host = self.hosts.get(url.hostname or "", url.hostname)
            try:
                source, sink = await asyncio.open_connection(host, url.port, local_addr=(self.ip, 0))
            except OSError:
                writer.write(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
                return
            path = (url.path or "/") + (f"?{url.query}" if url.query else "")
            sink.write(head.replace(target, path.encode(), 1))
            while data := await source.read(65536):
                writer.write(data)
            sink.close()
            await writer.drain()
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()


@contextmanager
def serving(*sites: Site | ForwardProxy) -> Iterator[None]:
    """Serves all of them, each on a free port, while the block runs."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def start() -> list[asyncio.Server]:
        servers = []
        for site in sites:
            host = site.ip if isinstance(site, ForwardProxy) else "127.0.0.1"
            server = await asyncio.start_server(site.serve, host, site.port)
            site.port = server.sockets[0].getsockname()[1]
            servers.append(server)
            if isinstance(site, Site):  # a second origin of the same site
                servers.append(await asyncio.start_server(site.serve, "127.0.0.2", site.port))
        return servers

    async def stop(servers: list[asyncio.Server]) -> None:
        for server in servers:
            server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    servers = asyncio.run_coroutine_threadsafe(start(), loop).result(10)
    try:
        yield
    finally:
        asyncio.run_coroutine_threadsafe(stop(servers), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


def _lines(name: str, value: str) -> list[tuple[str, str]]:
    """The lines of a header; a repeated header is one text with newlines between the values."""
    return [(name, line) for line in value.split("\n")]
