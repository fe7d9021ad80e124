"""Which addresses a check connects to: never the pool's own, private ones only for a source that says so."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from proxypool.checks import direct
from proxypool.checks.check import Reason
from proxypool.checks.context import Probe, StageFailed
from proxypool.checks.way import connect
from proxypool.network.tunnel import Wire
from proxypool.proxies.proxy import Protocol, Proxy
from proxypool.settings import Settings

KNOWN = Settings(judge_url="http://judge.example/,http://127.0.0.1:8790/", judge_https_url="https://judge.example/")


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses that were connected to; no packet leaves."""
    found: list[str] = []

    async def open_(host: str, port: int) -> Any:
        found.append(f"{host}:{port}")

    monkeypatch.setattr(Wire, "open", open_)
    return found


def reach(host: str, port: int, *, settings: Settings = KNOWN, allow_private: bool = False) -> None:
    bench = direct.bench(settings, b"key")
    probe = Probe(Proxy(Protocol.HTTP, host, port), bench, bench.judges[0], allow_private=allow_private)
    asyncio.run(connect(probe))


@pytest.mark.parametrize(
    ("host", "port"),
    [
        ("judge.example", 80),
        ("judge.example", 3128),  # whatever the port: it is our name
        ("127.0.0.1", 8790),
        ("abc123.execute-api.eu-west-1.amazonaws.com", 443),
        ("d111111abcdef8.cloudfront.net", 80),
    ],
)
def test_the_pool_itself_is_no_proxy(host: str, port: int, opened: list[str]) -> None:
    """Input 13: no loop through our own judge or API."""
    with pytest.raises(StageFailed) as failed:
        reach(host, port, settings=Settings(judge_url=KNOWN.judge_url, allow_loopback=True))

    assert failed.value.reason is Reason.ADDRESS_REFUSED
    assert opened == []


def test_a_private_address_is_reached_for_a_source_that_says_so(opened: list[str]) -> None:
    """Case 16, I17: metadata never, whoever says what."""
    with pytest.raises(StageFailed):
        reach("10.1.2.3", 8080)
    reach("10.1.2.3", 8080, allow_private=True)
    for host in ("169.254.169.254", "127.0.0.1", "100.64.0.1"):
        with pytest.raises(StageFailed):
            reach(host, 8080, allow_private=True)

    assert opened == ["10.1.2.3:8080"]
