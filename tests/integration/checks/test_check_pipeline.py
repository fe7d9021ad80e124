"""The pipeline against real proxies on loopback, most of them hostile."""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from proxypool.checks.check import Blame, Check, Reason, Verdict
from proxypool.checks.judge import answer as judge
from proxypool.checks.judge import judges
from proxypool.checks.probe import pipeline
from proxypool.config.settings import Settings
from proxypool.proxies.proxy import Anonymity, Protocol, Proxy

from tests.support.builders import NOW

KEY = b"secret"
Behaviour = Callable[[asyncio.StreamReader, asyncio.StreamWriter, bytes], Awaitable[None]]


async def serve(behaviour: Behaviour) -> asyncio.Server:
    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await behaviour(reader, writer, await reader.readuntil(b"\r\n\r\n"))
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    return await asyncio.start_server(accept, "127.0.0.1", 0)


def port(server: asyncio.Server) -> int:
    return int(server.sockets[0].getsockname()[1])


def response(body: bytes, *, status: str = "200 OK", more: str = "", length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    return f"HTTP/1.1 {status}\r\nContent-Length: {size}\r\n{more}\r\n".encode() + body


async def judge_behaviour(_: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
    first, *lines = head.decode().rstrip().split("\r\n")
    headers = [(line.partition(": ")[0], line.partition(": ")[2]) for line in lines]
    nonce = first.partition("nonce=")[2][:32]
    peer = writer.get_extra_info("peername")[0]
    writer.write(
        response(judge.build_answer(KEY, nonce=nonce, peer=peer, headers=headers, scheme="http", country="de"))
    )


async def forward(head: bytes, *, add: bytes = b"", exit_ip: str = "127.0.0.7") -> bytes:
    """The judge's response to the request when it comes from the proxy's exit IP."""
    _, url, _ = head.split(b" ", 2)
    host = url.split(b"/")[2].decode()
    reader, writer = await asyncio.open_connection(*host.split(":"), local_addr=(exit_ip, 0))
    writer.write(head.replace(b"\r\n", b"\r\n" + add, 1))
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


def responds(raw: bytes) -> Behaviour:
    async def behave(_: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
        writer.write(raw)

    return behave


def forwarding_proxy(**options: Any) -> Behaviour:
    async def behave(_: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
        writer.write(await forward(head, **options))

    return behave


async def injecting_proxy(_: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
    body = (await forward(head)).split(b"\r\n\r\n", 1)[1]
    writer.write(response(body + b"<script src=//ads></script>"))


async def silent_proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
    await reader.read()


async def dripping_proxy(_: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
    for byte in response(b"x" * 1000):
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(0.05)


async def endless_proxy(_: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        writer.write(b"x" * 8192)
        await writer.drain()


REPLAYED = judge.build_answer(KEY, nonce="0" * 32, peer="127.0.0.7", headers=[], scheme="http", country=None)
FORGED = judge.build_answer(b"guess", nonce="0" * 32, peer="127.0.0.7", headers=[], scheme="http", country=None)


async def check(behaviour: Behaviour, **parts: Any) -> Check:
    """One check of a proxy with this behaviour; time limits are short only for those that would exceed any."""
    seconds = 1.5 if behaviour in (silent_proxy, dripping_proxy) else 20.0
    async with await serve(judge_behaviour) as judge_server, await serve(behaviour) as proxy_server:
        address = f"127.0.0.1:{port(judge_server)}"
        settings = Settings(judge_url=f"http://{address}/", judge_https_url="", allow_loopback=True,
                         check_connect_seconds=20.0, check_stage_seconds=seconds, check_total_seconds=4 * seconds)  # fmt: skip
        context = await judges.probe_judges(judges.build_context(settings, KEY))
        assert context is not None
        proxy = Proxy(Protocol.HTTP, "127.0.0.1", port(proxy_server), **parts)
        result = await pipeline.check(proxy, context, now=NOW)
        await asyncio.sleep(0.05)  # lets the servers close their connections
        return result


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        (silent_proxy, Reason.TIMEOUT),  # input 32
        (dripping_proxy, Reason.TIMEOUT),  # like input 21: the limit is total, not per read
        (endless_proxy, Reason.TOO_LARGE),  # input 33
        (responds(response(b"x", length=9)), Reason.PROTOCOL),  # input 34: declared longer
        (responds(response(b"xxxxxxxxx", length=1)), Reason.PROTOCOL),  # input 34: declared shorter; input 35
        (responds(response(b"x", more="Transfer-Encoding: chunked\r\n")), Reason.PROTOCOL),  # input 35
        (responds(response(b"x", more=" folded: yes\r\n")), Reason.PROTOCOL),  # input 35
        (responds(b"HTTP/1.1 100 Continue\r\n\r\n" * 12), Reason.PROTOCOL),  # input 53
        (responds(response(b"", status="407 Who")), Reason.CREDENTIALS),  # input 36
        (responds(response(b"", status="302 Found", more="Location: http://a.example\r\n")), Reason.REDIRECT),  # case 2
        (responds(response(b"<html>pay your bill")), Reason.CONTENT_MISMATCH),  # case 1
        (responds(response(b'{"ip": "127.0.0.7"}')), Reason.NONCE_MISSING),  # case 1
        (responds(response(FORGED)), Reason.FORGED),  # input 39
        (responds(response(REPLAYED)), Reason.REPLAYED),  # input 40
        (forwarding_proxy(exit_ip="127.0.0.1"), Reason.LOOP),  # input 46: the exit IP is our own
        (responds(b""), Reason.CLOSED),
    ],
)
def test_a_hostile_proxy_fails_through_its_own_fault(behaviour: Behaviour, reason: Reason) -> None:
    """Inputs 32-36, 39, 40, 46, 51, 53; cases 1, 2. A direct request would have passed: none is made (51)."""
    result = asyncio.run(check(behaviour))

    assert (result.verdict, result.reason) == (Verdict.FAILED, reason)
    assert result.blame is (Blame.CREDENTIALS if reason is Reason.CREDENTIALS else Blame.PROXY)


@pytest.mark.parametrize(
    ("added", "level"),
    [
        (b"", Anonymity.ELITE),
        (b"Via: 1.1 squid\r\n", Anonymity.ANONYMOUS),
        (b"X-Forwarded-For: 127.0.0.1\r\n", Anonymity.TRANSPARENT),
    ],
)
def test_a_working_proxy_passes_with_its_anonymity_level(added: bytes, level: Anonymity) -> None:
    """Input 42, case 4: adding a header is not tampering."""
    result = asyncio.run(check(forwarding_proxy(add=added)))

    assert (result.verdict, result.anonymity, result.exit_ip) == (Verdict.PASSED, level, "127.0.0.7")
    assert result.signed
    assert not result.tampered


def test_a_check_fills_the_session_placeholder_of_a_gateway() -> None:
    """Case 23: each check uses a new session, so that a gateway without session support is judged by its behaviour."""
    logins: list[set[bytes]] = []

    async def gateway(_: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
        logins[-1].add(base64.b64decode(head.partition(b"Proxy-Authorization: Basic ")[2].partition(b"\r\n")[0]))
        writer.write(await forward(head))

    for _ in range(2):
        logins.append(set())
        result = asyncio.run(check(gateway, username="u-{session}", password="p-{session}"))
        assert result.verdict is Verdict.PASSED

    (first,), (second,) = logins
    assert first != second
    assert re.fullmatch(rb"u-([0-9a-f]{16}):p-\1", first)


def test_an_injected_script_is_tampering() -> None:
    """Input 43, case 4."""
    result = asyncio.run(check(injecting_proxy))

    assert (result.verdict, result.tampered) == (Verdict.PASSED, True)


def test_a_loopback_proxy_is_refused_in_production() -> None:
    """I17."""
    settings = Settings(judge_url="http://judge.test/", judge_https_url="")

    proxy = Proxy(Protocol.HTTP, "127.0.0.1", 80)
    result = asyncio.run(pipeline.check(proxy, judges.build_context(settings, KEY), now=NOW))

    assert result.reason is Reason.ADDRESS_REFUSED
