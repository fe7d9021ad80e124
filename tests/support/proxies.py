"""Proxies on loopback with one behaviour each, real judges, and a check context for them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from proxypool.checks.check import Check
from proxypool.checks.judge import judges as direct
from proxypool.checks.probe import pipeline
from proxypool.checks.probe.context import CheckContext
from proxypool.checks.rules.target import TargetRule
from proxypool.config.settings import Settings
from proxypool.local.farm.certificates import Certificates, local_certificates
from proxypool.local.farm.judge_server import Judge, serve_judge
from proxypool.proxies.proxy import Protocol, Proxy

from tests.support.builders import NOW

KEY = b"secret"
EXIT = "127.0.0.7"
Behaviour = Callable[[asyncio.StreamReader, asyncio.StreamWriter, bytes], Awaitable[None]]
Alter = Callable[[bytes, bytes], bytes]  # (the request's head, the answer) → the answer as the client gets it
Routes = dict[int, int]  # requested port → port of the actual connection


async def serve(behaviour: Behaviour, *, host: str = "127.0.0.1") -> asyncio.Server:
    """A server that hands each connection's head to the behaviour."""

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await behaviour(reader, writer, await reader.readuntil(b"\r\n\r\n"))
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    return await asyncio.start_server(accept, host, 0)


def port(server: asyncio.Server) -> int:
    """The server's port."""
    return int(server.sockets[0].getsockname()[1])


def response(body: bytes, *, status: str = "200 OK", more: str = "") -> bytes:
    """A complete HTTP response."""
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{more}\r\n".encode() + body


def unaltered(_: bytes, answer: bytes) -> bytes:
    """Returns the response as it is."""
    return answer


def proxy(
    *, add: bytes = b"", alter: Alter = unaltered, exits: Sequence[str] = (EXIT,), intercepts: Routes | None = None
) -> Behaviour:
    """A forward proxy: adds header lines, alters plain responses, rotates over these exit IPs, and redirects tunnels to
    some ports (which intercepts TLS).
    """
    next_exit = iter([*exits, *[exits[-1]] * 1_000])

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
        method, target, _ = head.split(b" ", 2)
        url = urlsplit(("//" if method == b"CONNECT" else "") + target.decode())
        port = (intercepts or {}).get(url.port or 0, url.port) if method == b"CONNECT" else url.port
        source, sink = await asyncio.open_connection(url.hostname, port, local_addr=(next(next_exit), 0))
        try:
            if method == b"CONNECT":
                writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
                await both_ways(reader, writer, source, sink)
            else:
                sink.write(head.replace(b"\r\n", b"\r\n" + add, 1))
                writer.write(alter(head, await source.read()))
        finally:
            sink.close()

    return behave


async def both_ways(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, source: asyncio.StreamReader, sink: asyncio.StreamWriter
) -> None:
    """Copies bytes in both directions until one side ends."""

    async def pipe(coming: asyncio.StreamReader, going: asyncio.StreamWriter) -> None:
        while data := await coming.read(4096):
            going.write(data)
            await going.drain()
        going.close()

    await asyncio.gather(pipe(reader, sink), pipe(source, writer), return_exceptions=True)


def injects_into(kind: bytes) -> Alter:
    """Injects a script into responses of this content type."""

    def alter(_: bytes, answer: bytes) -> bytes:
        head, _, body = answer.partition(b"\r\n\r\n")
        if kind not in head:
            return answer
        return response(body.replace(b"</body>", b"<script src=//ads.invalid></script></body>"))

    return alter


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeServers:
    """Running judges, and the check context after probing them."""

    context: CheckContext
    plain: tuple[int, ...]
    secure: tuple[int, ...]

    async def check(self, behaviour: Behaviour, *, full: bool = True, **changes: object) -> Check:
        """One check of a proxy with this behaviour; `changes` replaces fields of the context."""
        context = replace(self.context, **changes)  # type: ignore[arg-type]
        async with await serve(behaviour) as server:
            return await pipeline.check(Proxy(Protocol.HTTP, "127.0.0.1", port(server)), context, now=NOW, full=full)


@asynccontextmanager
async def judge_servers(
    folder: Path, *, judges: int = 1, down: int = 0, target_rules: tuple[TargetRule, ...] = (), **settings: object
) -> AsyncIterator[JudgeServers]:
    """Runs `judges` judges with HTTP and HTTPS, and configures `down` more that do not answer; short time limits."""
    certificates = certificates_in(folder / "ours")
    async with AsyncExitStack() as stack:
        ports = [
            await stack.enter_async_context(serve_judge(Judge(key=KEY), port=0, context=certificates.server_context()))
            for _ in range(judges)
        ]
        plain, secure = tuple(port for port, _ in ports), tuple(https_port for _, https_port in ports)
        configured = Settings(**{  # type: ignore[arg-type]
            "judge_url": ",".join(f"http://127.0.0.1:{port}/" for port in (*plain, *[9] * down)),
            "judge_https_url": ",".join(f"https://127.0.0.1:{port}/" for port in secure),
            "judge_ca_file": str(certificates.ca_file), "allow_loopback": True,
            "check_connect_seconds": 10.0, "check_stage_seconds": 10.0, "check_total_seconds": 40.0,
        } | settings)  # fmt: skip
        context = await direct.probe_judges(direct.build_context(configured, KEY, target_rules))
        assert context is not None
        yield JudgeServers(context=context, plain=plain, secure=secure)


def certificates_in(folder: Path) -> Certificates:
    """A new certificate authority in this folder."""
    folder.mkdir(parents=True, exist_ok=True)
    return local_certificates(folder)
