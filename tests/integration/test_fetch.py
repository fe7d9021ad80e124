"""The bounded fetch against real servers on loopback that drip, bomb, redirect and lie."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from proxypool.errors import SourceError
from proxypool.local.certificates import local_certificates
from proxypool.network.fetch import Fetched, Limits, fetch

LOCAL = Limits(allow_loopback=True, total_seconds=60)
Answer = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def _server(answer: Answer) -> AsyncIterator[str]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                await answer(await reader.readuntil(b"\r\n\r\n"), writer)
                await writer.drain()
        finally:  # also when the client left and the loop ends
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


def _fetch(answer: Answer, *, limits: Limits = LOCAL, etag: str = "", path: str = "/list") -> Fetched:
    async def run() -> Fetched:
        async with _server(answer) as base:
            return await fetch(base + path, limits=limits, etag=etag)

    return asyncio.run(run())


def _plain(body: bytes, *headers: str, status: str = "200 OK") -> Answer:
    async def answer(request: bytes, writer: asyncio.StreamWriter) -> None:
        head = "\r\n".join([f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers])
        writer.write(head.encode() + b"\r\n\r\n" + body)

    return answer


def _reason(answer: Answer, **how: object) -> str:
    with pytest.raises(SourceError) as caught:
        _fetch(answer, **how)  # type: ignore[arg-type]
    return caught.value.reason


def test_a_list_comes_with_its_etag() -> None:
    """The good way, gzip included."""
    plain = _fetch(_plain(b"a", 'ETag: "1"'))
    packed = _fetch(_plain(gzip.compress(b"b" * 1000), "Content-Encoding: gzip"))

    assert (plain.body, plain.etag, packed.body) == (b"a", '"1"', b"b" * 1000)


def test_a_list_that_did_not_change_is_not_read_again() -> None:
    """Input 29: the ETag goes out, 304 comes back."""

    async def answer(request: bytes, writer: asyncio.StreamWriter) -> None:
        assert b'if-none-match: "1"' in request.lower()
        writer.write(b"HTTP/1.1 304 Not Modified\r\n\r\n")

    assert _fetch(answer, etag='"1"').status == 304


def test_a_list_over_the_cap_is_too_large() -> None:
    """Input 19: the reading stops at the cap."""
    assert _reason(_plain(b"x" * 5_000_001)) == "too_large"


def test_a_bomb_stops_before_it_fills_the_memory() -> None:
    """Input 20."""
    assert _reason(_plain(gzip.compress(bytes(30_000_000)), "Content-Encoding: gzip")) == "too_large"


@pytest.mark.parametrize("encoding", ["br", "gzip, gzip", "deflate"])
def test_an_encoding_that_was_not_asked_for_is_refused(encoding: str) -> None:
    """Input 20: nested ones, too."""
    assert _reason(_plain(b"x", f"Content-Encoding: {encoding}")) == "encoding"


def test_a_drip_ends_at_the_deadline() -> None:
    """Input 21: each read is quick, the whole never ends."""

    async def drip(request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.1)

    assert _reason(drip, limits=replace(LOCAL, total_seconds=0.5)) == "timeout"


def test_endless_headers_are_malformed() -> None:
    """Input 22."""

    async def endless(request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n")
        while True:
            writer.write(b"X-Header: y\r\n" * 1_000)
            await writer.drain()

    assert _reason(endless) == "protocol"


def test_a_redirect_to_a_forbidden_address_is_refused() -> None:
    """Input 4, I17: every hop is vetted."""
    moved = _plain(b"", "Location: https://10.0.0.1/", status="302 Found")

    assert _reason(moved) == "refused: private"


def test_a_fourth_redirect_is_not_followed() -> None:
    """Input 4."""
    assert _reason(_plain(b"", "Location: /again", status="302 Found")) == "too_many_redirects"


def test_a_status_other_than_success_carries_its_pause() -> None:
    """Input 29: Retry-After in seconds."""
    with pytest.raises(SourceError) as caught:
        _fetch(_plain(b"wait", "Retry-After: 7", status="429 Too Many Requests"))

    assert (caught.value.reason, caught.value.status, caught.value.retry_after_seconds) == ("http_429", 429, 7)


def test_the_environments_proxies_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Input 50."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)

    assert _fetch(_plain(b"direct")).body == b"direct"


def test_a_name_is_asked_at_its_vetted_address_with_its_own_host_header() -> None:
    """Input 5: pinned; the resolver is asked once."""
    asked: list[str] = []

    async def lookup(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"]

    async def answer(request: bytes, writer: asyncio.StreamWriter) -> None:
        await _plain(request)(request, writer)

    async def run() -> Fetched:
        async with _server(answer) as base:
            port = base.rpartition(":")[2]
            return await fetch(f"http://list.example:{port}/", limits=replace(LOCAL, lookup=lookup))

    body = asyncio.run(run()).body.lower()

    assert asked == ["list.example"]
    assert b"host: list.example:" in body


def test_plain_http_needs_the_sources_flag() -> None:
    """Input 3: loopback aside."""
    with pytest.raises(SourceError) as caught:
        asyncio.run(fetch("http://8.8.8.8/", limits=LOCAL))

    assert caught.value.reason == "refused: scheme"


def test_nothing_turns_tls_verification_off() -> None:
    """Input 30: no line of the service does."""
    service = Path(__file__).parents[2] / "layers" / "core" / "proxypool"
    texts = {path: path.read_text() for path in service.rglob("*.py")}

    assert [path for path, text in texts.items() if "verify=False" in text or "_create_unverified" in text] == []


def test_a_certificate_that_nobody_vouches_for_is_refused(tmp_path: Path) -> None:
    """Input 30: the source fails, verified or not at all."""
    served: list[bytes] = []

    async def run() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            served.append(await reader.read(1))
            writer.close()

        context = local_certificates(tmp_path).server_context()
        server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
        async with server:
            await fetch(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/", limits=LOCAL)

    with pytest.raises(SourceError) as caught:
        asyncio.run(run())

    assert (caught.value.reason, served) == ("tls", [])
