"""A job's page through real proxies of every protocol, and through proxies that lie: what comes back, and whose fault it is."""

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
SPEAKING = ("fast", "password", "https", "socks4", "socks5", "socks5-password")
URL = "http://shop.example/page"


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("kind", SPEAKING)
def test_a_page_comes_by_every_protocol_its_name_unresolved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, secure: bool
) -> None:
    """Inputs 50–52: nothing is looked up here, no setting of the environment counts, and the exit is the proxy's."""

    def no_lookup(*_: Any, **__: Any) -> Any:
        raise AssertionError("a name was looked up")

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
def test_an_answer_that_two_readers_could_read_differently_or_that_never_ends_is_no_page(
    sent: bytes, outcome: Outcome, reason: str
) -> None:
    """Inputs 20, 33, 34, 35 and 53, I18."""
    with pytest.raises(FetchFailed) as failed:
        run_with(sent)

    assert (failed.value.outcome, failed.value.reason) == (outcome, reason)


@pytest.mark.parametrize(
    ("said", "outcome", "reason"),
    [
        (b"HTTP/1.1 407 No\r\n\r\n", Outcome.CREDENTIALS, "credentials_refused"),
        (b"HTTP/1.1 302 Found\r\nLocation: http://ads.example/\r\n\r\n", Outcome.PROXY_ERROR, "unexpected_redirect"),
        (b"HTTP/1.1 403 No\r\n\r\n", Outcome.PROXY_ERROR, "connect_refused"),
        (b"HTTP/1.1 502 No\r\n\r\n", Outcome.TARGET_ERROR, "connect_refused"),
        (b"HTTP/1.1 200 OK\r\n\r\ngarbage", Outcome.PROXY_ERROR, "protocol_error"),
        (b"garbage\r\n\r\n", Outcome.PROXY_ERROR, "protocol_error"),
    ],
)
def test_a_tunnel_that_does_not_open_is_somebodys_fault(said: bytes, outcome: Outcome, reason: str) -> None:
    """Input 36: a redirect is never followed; a target that the proxy cannot reach is the target's affair."""
    with pytest.raises(FetchFailed) as failed:
        run_with(said, url="https://shop.example/")

    assert (failed.value.outcome, failed.value.reason) == (outcome, reason)


@pytest.mark.parametrize(
    ("code", "outcome"), [(1, Outcome.PROXY_ERROR), (4, Outcome.TARGET_ERROR), (5, Outcome.TARGET_ERROR)]
)
def test_what_socks_says_of_the_target_is_believed(code: int, outcome: Outcome) -> None:
    """Case 29: host unreachable and connection refused (RFC 1928) cost the proxy nothing."""
    with pytest.raises(FetchFailed) as failed:
        run_with(b"\x05\x00" + bytes((5, code, 0, 1, 0, 0, 0, 0, 0, 0)), scheme="socks5", pause=True)

    assert failed.value.outcome is outcome


def test_a_proxy_that_never_answers_is_a_timeout_in_all() -> None:
    """Inputs 21 and 32, I18: a drip extends nothing."""
    with pytest.raises(FetchFailed) as failed:
        run_with(OK + b"Content-Length: 99\r\n\r\n", drips=True, seconds=0.6)

    assert (failed.value.outcome, failed.value.reason) == (Outcome.TIMEOUT, "timeout")


@pytest.mark.parametrize("address", ["169.254.169.254", "10.0.0.7", "127.0.0.1"])
def test_a_proxys_name_that_leads_inside_is_not_connected_to(address: str) -> None:
    """Inputs 5, 6 and 18, I17: it is resolved anew for each connection, and a single forbidden answer is enough."""

    async def lookup(host: str, port: int) -> list[str]:
        return ["8.8.8.8", address]

    page_request = PageRequest(request=JobRequest(url="https://shop.example/"), limits=FetchLimits(lookup=lookup))
    with pytest.raises(FetchFailed) as failed:
        loop.run(fetch(page_request, "http://proxy.example:3128", tls=ssl.create_default_context(), seconds=5))

    assert failed.value.reason == "address_refused"


def test_a_head_has_no_body_whatever_it_says_and_a_packed_page_is_unpacked() -> None:
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
    """The answer by a proxy that says these bytes to whatever it is asked. `pause`: the first two apart from the rest."""

    talks: list[asyncio.Task[Any]] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talks.append(cast("asyncio.Task[Any]", asyncio.current_task()))
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

    async def ask() -> Answer:
        server = await asyncio.start_server(talk, "127.0.0.1", 0)
        where = f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            return await fetch(a_page_request(url, method), where, tls=ssl.create_default_context(), seconds=seconds)
        finally:
            server.close()
            for one in talks:
                one.cancel()
            await asyncio.gather(*talks, return_exceptions=True)

    return asyncio.run(ask())
