"""The bounded fetch against real servers on loopback: slow, oversized, redirecting and malformed responses."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from proxypool.errors import SourceError
from proxypool.local.farm.certificates import local_certificates
from proxypool.network.fetch import FetchLimits, FetchResult, fetch

LOCAL = FetchLimits(allow_loopback=True, total_seconds=60)
Behaviour = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def _server(behaviour: Behaviour) -> AsyncIterator[str]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                await behaviour(await reader.readuntil(b"\r\n\r\n"), writer)
                await writer.drain()
        finally:  # also if the client is gone and the loop ends
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


def _fetch(behaviour: Behaviour, *, limits: FetchLimits = LOCAL, etag: str = "", path: str = "/list") -> FetchResult:
    async def run() -> FetchResult:
        async with _server(behaviour) as base:
            return await fetch(base + path, limits=limits, etag=etag)

    return asyncio.run(run())


def _responds(body: bytes, *headers: str, status: str = "200 OK") -> Behaviour:
    async def behaviour(request: bytes, writer: asyncio.StreamWriter) -> None:
        head = "\r\n".join([f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers])
        writer.write(head.encode() + b"\r\n\r\n" + body)

    return behaviour


def _reason(behaviour: Behaviour, **options: object) -> str:
    with pytest.raises(SourceError) as caught:
        _fetch(behaviour, **options)  # type: ignore[arg-type]
    return caught.value.reason


def test_a_list_is_fetched_with_its_etag() -> None:
    """Success, with and without gzip."""
    plain = _fetch(_responds(b"a", 'ETag: "1"'))
    packed = _fetch(_responds(gzip.compress(b"b" * 1000), "Content-Encoding: gzip"))

    assert (plain.body, plain.etag, packed.body) == (b"a", '"1"', b"b" * 1000)


def test_an_unchanged_list_is_not_read_again() -> None:
    """Input 29: the ETag is sent, the response is 304."""

    async def behaviour(request: bytes, writer: asyncio.StreamWriter) -> None:
        assert b'if-none-match: "1"' in request.lower()
        writer.write(b"HTTP/1.1 304 Not Modified\r\n\r\n")

    assert _fetch(behaviour, etag='"1"').status == 304


def test_a_list_above_the_limit_is_too_large() -> None:
    """Input 19: reading stops at the limit."""
    assert _reason(_responds(b"x" * 5_000_001)) == "too_large"


def test_a_decompression_bomb_is_too_large() -> None:
    """Input 20."""
    assert _reason(_responds(gzip.compress(bytes(30_000_000)), "Content-Encoding: gzip")) == "too_large"


@pytest.mark.parametrize("encoding", ["br", "gzip, gzip", "deflate"])
def test_an_encoding_that_was_not_asked_for_is_refused(encoding: str) -> None:
    """Input 20: including nested encodings."""
    assert _reason(_responds(b"x", f"Content-Encoding: {encoding}")) == "encoding"


def test_a_slow_response_ends_at_the_deadline() -> None:
    """Input 21: each read is fast, the total is not."""

    async def drip(request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.1)

    assert _reason(drip, limits=replace(LOCAL, total_seconds=0.5)) == "timeout"


def test_endless_headers_are_a_protocol_error() -> None:
    """Input 22."""

    async def endless(request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n")
        while True:
            writer.write(b"X-Header: y\r\n" * 1_000)
            await writer.drain()

    assert _reason(endless) == "protocol"


def test_a_redirect_to_a_forbidden_address_is_refused() -> None:
    """Input 4, I17: every redirect target is vetted."""
    moved = _responds(b"", "Location: https://10.0.0.1/", status="302 Found")

    assert _reason(moved) == "refused: private"


def test_a_fourth_redirect_is_not_followed() -> None:
    """Input 4."""
    assert _reason(_responds(b"", "Location: /again", status="302 Found")) == "too_many_redirects"


def test_an_error_status_has_its_retry_after() -> None:
    """Input 29: Retry-After in seconds."""
    with pytest.raises(SourceError) as caught:
        _fetch(_responds(b"wait", "Retry-After: 7", status="429 Too Many Requests"))

    assert (caught.value.reason, caught.value.status, caught.value.retry_after_seconds) == ("http_429", 429, 7)


def test_the_environments_proxies_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Input 50."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)

    assert _fetch(_responds(b"direct")).body == b"direct"


def test_a_name_is_fetched_from_its_vetted_address_with_its_host_header() -> None:
    """Input 5: the address is pinned; the name is resolved once."""
    lookups: list[str] = []

    async def lookup(host: str, port: int) -> list[str]:
        lookups.append(host)
        return ["127.0.0.1"]

    async def behaviour(request: bytes, writer: asyncio.StreamWriter) -> None:
        await _responds(request)(request, writer)

    async def run() -> FetchResult:
        async with _server(behaviour) as base:
            port = base.rpartition(":")[2]
            return await fetch(f"http://list.example:{port}/", limits=replace(LOCAL, lookup=lookup))

    body = asyncio.run(run()).body.lower()

    assert lookups == ["list.example"]
    assert b"host: list.example:" in body


def test_plain_http_needs_the_sources_flag() -> None:
    """Input 3: loopback is exempt."""
    with pytest.raises(SourceError) as caught:
        asyncio.run(fetch("http://8.8.8.8/", limits=LOCAL))

    assert caught.value.reason == "refused: scheme"


def test_tls_verification_is_never_disabled() -> None:
    """Input 30: no line of the service disables it."""
    service = Path(__file__).parents[3] / "layers" / "core" / "proxypool"
    texts = {path: path.read_text() for path in service.rglob("*.py")}

    assert [path for path, text in texts.items() if "verify=False" in text or "_create_unverified" in text] == []


def test_an_untrusted_certificate_is_refused(tmp_path: Path) -> None:
    """Input 30: the fetch fails."""
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
