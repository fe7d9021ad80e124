"""The pipeline against real proxies on loopback, most of them hostile."""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from proxypool.checks import direct, judge, pipeline
from proxypool.checks.check import Blame, Check, Reason, Verdict
from proxypool.proxies.proxy import Anonymity, Protocol, Proxy
from proxypool.settings import Settings

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


async def judging(_: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
    first, *lines = head.decode().rstrip().split("\r\n")
    headers = [(line.partition(": ")[0], line.partition(": ")[2]) for line in lines]
    nonce = first.partition("nonce=")[2][:32]
    peer = writer.get_extra_info("peername")[0]
    writer.write(response(judge.answer(KEY, nonce=nonce, peer=peer, headers=headers, scheme="http", country="de")))


async def forwarded(head: bytes, *, add: bytes = b"", exit_ip: str = "127.0.0.7") -> bytes:
    """What the judge answers to the request when it comes from the proxy's exit."""
    _, url, _ = head.split(b" ", 2)
    host = url.split(b"/")[2].decode()
    reader, writer = await asyncio.open_connection(*host.split(":"), local_addr=(exit_ip, 0))
    writer.write(head.replace(b"\r\n", b"\r\n" + add, 1))
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


def says(raw: bytes) -> Behaviour:
    async def behave(_: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
        writer.write(raw)

    return behave


def forwards(**how: Any) -> Behaviour:
    async def behave(_: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
        writer.write(await forwarded(head, **how))

    return behave


async def injects(_: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
    body = (await forwarded(head)).split(b"\r\n\r\n", 1)[1]
    writer.write(response(body + b"<script src=//ads></script>"))


async def is_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
    await reader.read()


async def drips(_: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
    for sign in response(b"x" * 1000):
        writer.write(bytes([sign]))
        await writer.drain()
        await asyncio.sleep(0.05)


async def never_ends(_: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        writer.write(b"x" * 8192)
        await writer.drain()


OLD = judge.answer(KEY, nonce="0" * 32, peer="127.0.0.7", headers=[], scheme="http", country=None)
LIE = judge.answer(b"guess", nonce="0" * 32, peer="127.0.0.7", headers=[], scheme="http", country=None)


async def check(behaviour: Behaviour, **parts: Any) -> Check:
    """One check of a proxy that behaves so; the limits are short for those that would outlast any."""
    seconds = 1.5 if behaviour in (is_silent, drips) else 20.0
    async with await serve(judging) as judge_server, await serve(behaviour) as proxy_server:
        there = f"127.0.0.1:{port(judge_server)}"
        known = Settings(judge_url=f"http://{there}/", judge_https_url="", allow_loopback=True,
                         check_connect_seconds=20.0, check_stage_seconds=seconds, check_total_seconds=4 * seconds)  # fmt: skip
        bench = await direct.introduced(direct.bench(known, KEY))
        assert bench is not None
        proxy = Proxy(Protocol.HTTP, "127.0.0.1", port(proxy_server), **parts)
        found = await pipeline.check(proxy, bench, now=NOW)
        await asyncio.sleep(0.05)  # lets the servers' sides close
        return found


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        (is_silent, Reason.TIMEOUT),  # input 32
        (drips, Reason.TIMEOUT),  # input 21's drip: the limit is in all, not per read
        (never_ends, Reason.TOO_LARGE),  # input 33
        (says(response(b"x", length=9)), Reason.PROTOCOL),  # input 34: longer than it is
        (says(response(b"xxxxxxxxx", length=1)), Reason.PROTOCOL),  # input 34: shorter; input 35: a second answer
        (says(response(b"x", more="Transfer-Encoding: chunked\r\n")), Reason.PROTOCOL),  # input 35
        (says(response(b"x", more=" folded: yes\r\n")), Reason.PROTOCOL),  # input 35
        (says(b"HTTP/1.1 100 Continue\r\n\r\n" * 12), Reason.PROTOCOL),  # input 53
        (says(response(b"", status="407 Who")), Reason.CREDENTIALS),  # input 36
        (says(response(b"", status="302 Found", more="Location: http://ads.example\r\n")), Reason.REDIRECT),  # case 2
        (says(response(b"<html>pay your bill")), Reason.CONTENT_MISMATCH),  # case 1
        (says(response(b'{"ip": "127.0.0.7"}')), Reason.NONCE_MISSING),  # case 1
        (says(response(LIE)), Reason.FORGED),  # input 39
        (says(response(OLD)), Reason.REPLAYED),  # input 40
        (forwards(exit_ip="127.0.0.1"), Reason.LOOP),  # input 46: the exit is ourselves
        (says(b""), Reason.CLOSED),
    ],
)
def test_a_hostile_proxy_fails_by_its_own_blame(behaviour: Behaviour, reason: Reason) -> None:
    """Inputs 32-36, 39, 40, 46, 51, 53; cases 1, 2. A direct request would have passed: none is made (51)."""
    found = asyncio.run(check(behaviour))

    assert (found.verdict, found.reason) == (Verdict.FAILED, reason)
    assert found.blame is (Blame.CREDENTIALS if reason is Reason.CREDENTIALS else Blame.PROXY)


@pytest.mark.parametrize(
    ("added", "level"),
    [
        (b"", Anonymity.ELITE),
        (b"Via: 1.1 squid\r\n", Anonymity.ANONYMOUS),
        (b"X-Forwarded-For: 127.0.0.1\r\n", Anonymity.TRANSPARENT),
    ],
)
def test_a_working_proxy_passes_with_what_it_shows_of_us(added: bytes, level: Anonymity) -> None:
    """Input 42, case 4: adding a header is not tampering."""
    found = asyncio.run(check(forwards(add=added)))

    assert (found.verdict, found.anonymity, found.exit_ip) == (Verdict.PASSED, level, "127.0.0.7")
    assert found.signed
    assert not found.tampered


def test_a_check_fills_a_gateways_template_with_one_session_of_its_own() -> None:
    """Case 23: each check another, so that a gateway which knows no braces is judged by what it does."""
    logins: list[set[bytes]] = []

    async def gateway(_: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
        logins[-1].add(base64.b64decode(head.partition(b"Proxy-Authorization: Basic ")[2].partition(b"\r\n")[0]))
        writer.write(await forwarded(head))

    for _ in range(2):
        logins.append(set())
        found = asyncio.run(check(gateway, username="u-{session}", password="p-{session}"))
        assert found.verdict is Verdict.PASSED

    (first,), (second,) = logins
    assert first != second
    assert re.fullmatch(rb"u-([0-9a-f]{16}):p-\1", first)


def test_an_injected_script_is_tampering() -> None:
    """Input 43, case 4."""
    found = asyncio.run(check(injects))

    assert (found.verdict, found.tampered) == (Verdict.PASSED, True)


def test_a_loopback_proxy_is_refused_in_production() -> None:
    """I17."""
    known = Settings(judge_url="http://judge.test/", judge_https_url="")

    proxy = Proxy(Protocol.HTTP, "127.0.0.1", 80)
    found = asyncio.run(pipeline.check(proxy, direct.bench(known, KEY), now=NOW))

    assert found.reason is Reason.ADDRESS_REFUSED
