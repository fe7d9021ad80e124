"""Fetching a page through proxies of every protocol and through misbehaving ones: results and blame."""

from __future__ import annotations

import asyncio
import gzip
import socket
import ssl
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest
from proxypool.checks.judge.answer import new_nonce, parse_answer
from proxypool.jobs.fetch.page import Answer, FetchFailed, PageRequest, fetch
from proxypool.jobs.job import JobRequest
from proxypool.local.farm.kinds import KINDS, PASSWORD, USER, Spec
from proxypool.local.farm.server import serve_farm
from proxypool.network import loop
from proxypool.network.fetch import FetchLimits
from proxypool_client.outcome import Outcome

KEY = b"the judge's key"
WORKING_KINDS = ("fast", "password", "https", "socks4", "socks5", "socks5-password")
URL = "http://shop.example/page"


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("kind", WORKING_KINDS)
def test_a_page_is_fetched_by_every_protocol_without_local_dns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, secure: bool
) -> None:
    """Inputs 50–52: no local DNS lookup, proxy variables of the environment are ignored, and the exit is that of the proxy."""

    def no_lookup(*_: Any, **__: Any) -> Any:
        raise AssertionError("a host name was looked up")

    async def page() -> Answer:
        async with serve_farm(tmp_path, [Spec(kind=KINDS[kind], exit_ip="127.69.0.1", country="de")], key=KEY) as (
            farm,
            ports,
        ):
            login = f"{USER}:{PASSWORD}@" if KINDS[kind].listed_with_password else ""
            ip, port = farm.addresses[0]
            scheme = "https" if secure else "http"
            page_request = a_page_request(f"{scheme}://judge.test:{ports[secure]}/?nonce={nonce}")
            tls = ssl.create_default_context(cafile=tmp_path / "ca.pem")
            return await fetch(page_request, f"{KINDS[kind].listed_as}://{login}{ip}:{port}", tls=tls, seconds=10)

    monkeypatch.setattr(socket, "getaddrinfo", no_lookup)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    nonce = new_nonce()

    answer = loop.run(page())

    assert parse_answer(KEY, answer.body, nonce).peer == "127.69.0.1"


OK = b"HTTP/1.1 200 OK\r\n"
BOMB = gzip.compress(b"\0" * 30_000_000)


@pytest.mark.parametrize(
    ("sent", "outcome", "reason"),
    [
        (OK + b"Content-Length: 9\r\n\r\nshort", Outcome.PROXY_ERROR, "protocol_error"),
        (OK + b"Content-Length: 2\r\n\r\nlonger", Outcome.PROXY_ERROR, "protocol_error"),
        (OK + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\nok", Outcome.PROXY_ERROR, "protocol_error"),
        (OK + b"X: a\r\n folded\r\nContent-Length: 2\r\n\r\nok", Outcome.PROXY_ERROR, "protocol_error"),
        (OK + b"X: a\nContent-Length: 2\r\n\r\nok", Outcome.PROXY_ERROR, "protocol_error"),
        (2 * (OK + b"Content-Length: 2\r\n\r\nok"), Outcome.PROXY_ERROR, "protocol_error"),
        (11 * b"HTTP/1.1 103 Early\r\n\r\n" + OK + b"\r\n", Outcome.PROXY_ERROR, "protocol_error"),
        (b"HTTP/1.1 101 Switch\r\n\r\n", Outcome.PROXY_ERROR, "protocol_error"),
        (OK + b"X: " + b"a" * 110_000 + b"\r\n\r\n", Outcome.PROXY_ERROR, "protocol_error"),
        (b"", Outcome.PROXY_ERROR, "connection_closed"),
        (OK + b"Content-Length: 5000001\r\n\r\n", Outcome.TARGET_ERROR, "too_large"),
        (OK + b"\r\n" + b"x" * 5_200_000, Outcome.TARGET_ERROR, "too_large"),
        (OK + b"Content-Encoding: gzip\r\n\r\n" + BOMB, Outcome.TARGET_ERROR, "too_large"),
        (OK + b"Content-Encoding: gzip\r\n\r\n" + BOMB[:99], Outcome.TARGET_ERROR, "encoding"),
        (OK + b"Content-Encoding: br\r\n\r\nx", Outcome.TARGET_ERROR, "encoding"),
        (OK + b"Content-Encoding: gzip, gzip\r\n\r\nx", Outcome.TARGET_ERROR, "encoding"),
    ],
)
def test_an_ambiguous_or_endless_response_is_refused(sent: bytes, outcome: Outcome, reason: str) -> None:
    """Inputs 20, 33, 34, 35 and 53, I18."""
    with pytest.raises(FetchFailed) as failed:
        run_with(sent)

    assert (failed.value.outcome, failed.value.reason) == (outcome, reason)


@pytest.mark.parametrize(
    ("sent", "outcome", "reason"),
    [
        (b"HTTP/1.1 407 No\r\n\r\n", Outcome.CREDENTIALS, "credentials_refused"),
        (b"HTTP/1.1 302 Found\r\nLocation: http://ads.example/\r\n\r\n", Outcome.PROXY_ERROR, "unexpected_redirect"),
        (b"HTTP/1.1 403 No\r\n\r\n", Outcome.PROXY_ERROR, "connect_refused"),
        (b"HTTP/1.1 502 No\r\n\r\n", Outcome.TARGET_ERROR, "connect_refused"),
        (b"HTTP/1.1 200 OK\r\n\r\ngarbage", Outcome.PROXY_ERROR, "protocol_error"),
        (b"garbage\r\n\r\n", Outcome.PROXY_ERROR, "protocol_error"),
    ],
)
def test_a_refused_tunnel_is_blamed_on_proxy_or_target(sent: bytes, outcome: Outcome, reason: str) -> None:
    """Input 36: a redirect is never followed; a target that the proxy cannot reach is blamed on the target."""
    with pytest.raises(FetchFailed) as failed:
        run_with(sent, url="https://shop.example/")

    assert (failed.value.outcome, failed.value.reason) == (outcome, reason)


@pytest.mark.parametrize(
    ("code", "outcome"), [(1, Outcome.PROXY_ERROR), (4, Outcome.TARGET_ERROR), (5, Outcome.TARGET_ERROR)]
)
def test_a_socks_error_of_the_target_is_not_blamed_on_the_proxy(code: int, outcome: Outcome) -> None:
    """Case 29: host unreachable and connection refused (RFC 1928) are blamed on the target."""
    with pytest.raises(FetchFailed) as failed:
        run_with(b"\x05\x00" + bytes((5, code, 0, 1, 0, 0, 0, 0, 0, 0)), scheme="socks5", pause=True)

    assert failed.value.outcome is outcome


def test_a_slow_response_is_a_timeout() -> None:
    """Inputs 21 and 32, I18: a slow drip does not extend the timeout."""
    with pytest.raises(FetchFailed) as failed:
        run_with(OK + b"Content-Length: 99\r\n\r\n", drips=True, seconds=0.6)

    assert (failed.value.outcome, failed.value.reason) == (Outcome.TIMEOUT, "timeout")


@pytest.mark.parametrize("address", ["169.254.169.254", "10.0.0.7", "127.0.0.1"])
def test_a_proxy_whose_host_name_resolves_to_a_forbidden_address_is_refused(address: str) -> None:
    """Inputs 5, 6 and 18, I17: it is resolved for each connection, and one forbidden address is enough."""

    async def lookup(host: str, port: int) -> list[str]:
        return ["8.8.8.8", address]

    page_request = PageRequest(request=JobRequest(url="https://shop.example/"), limits=FetchLimits(lookup=lookup))
    with pytest.raises(FetchFailed) as failed:
        loop.run(fetch(page_request, "http://proxy.example:3128", tls=ssl.create_default_context(), seconds=5))

    assert failed.value.reason == "address_refused"


def test_a_head_response_has_no_body_and_a_compressed_page_is_decompressed() -> None:
    head = run_with(OK + b"Content-Length: 1234\r\n\r\n", method="HEAD")
    page = run_with(OK + b"Content-Encoding: gzip\r\n\r\n" + gzip.compress(b"hello"))

    assert (head.status, head.body) == (200, b"")
    assert page.body == b"hello"


def a_page_request(url: str, method: str = "GET") -> PageRequest:
    return PageRequest(
        request=JobRequest(url=url, method=method), allow_http=True, limits=FetchLimits(allow_loopback=True)
    )


def run_with(
    sent: bytes,
    *,
    url: str = URL,
    method: str = "GET",
    scheme: str = "http",
    seconds: float = 5,
    drips: bool = False,
    pause: bool = False,
) -> Answer:
    """Fetches through a proxy that sends these bytes. `pause`: it waits for another read after the first two bytes."""

    connections: list[asyncio.Task[Any]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(cast("asyncio.Task[Any]", asyncio.current_task()))
        try:
            await reader.read(65_536)
            if pause:
                writer.write(sent[:2])
                await reader.read(65_536)
            writer.write(sent[2:] if pause else sent)
            while drips:
                writer.write(b"x")
                await asyncio.sleep(0.1)
            await writer.drain()
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def run() -> Answer:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        proxy_url = f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            return await fetch(
                a_page_request(url, method), proxy_url, tls=ssl.create_default_context(), seconds=seconds
            )
        finally:
            server.close()
            for connection in connections:
                connection.cancel()
            await asyncio.gather(*connections, return_exceptions=True)

    return asyncio.run(run())
