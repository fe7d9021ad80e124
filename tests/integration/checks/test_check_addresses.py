"""Addresses that a check connects to: never the pool's own, private ones only if the source permits them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from proxypool.checks.check import Reason
from proxypool.checks.judge import judges
from proxypool.checks.probe.context import Probe, StageFailed
from proxypool.checks.probe.request import connect
from proxypool.config.settings import Settings
from proxypool.network.tunnel import Connection
from proxypool.proxies.proxy import Protocol, Proxy

SETTINGS = Settings(judge_url="http://judge.example/,http://127.0.0.1:8790/", judge_https_url="https://judge.example/")


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses of attempted connections; nothing is sent."""
    addresses: list[str] = []

    async def open_(host: str, port: int) -> Any:
        addresses.append(f"{host}:{port}")

    monkeypatch.setattr(Connection, "open", open_)
    return addresses


def open_connection(host: str, port: int, *, settings: Settings = SETTINGS, allow_private: bool = False) -> None:
    context = judges.build_context(settings, b"key")
    probe = Probe(Proxy(Protocol.HTTP, host, port), context, context.judges[0], allow_private=allow_private)
    asyncio.run(connect(probe))


@pytest.mark.parametrize(
    ("host", "port"),
    [
        ("judge.example", 80),
        ("judge.example", 3128),  # any port: it is our host name
        ("127.0.0.1", 8790),
        ("abc123.execute-api.eu-west-1.amazonaws.com", 443),
        ("d111111abcdef8.cloudfront.net", 80),
    ],
)
def test_an_own_endpoint_is_not_checked_as_a_proxy(host: str, port: int, opened: list[str]) -> None:
    """Input 13: no loop through our own judge or API."""
    with pytest.raises(StageFailed) as failed:
        open_connection(host, port, settings=Settings(judge_url=SETTINGS.judge_url, allow_loopback=True))

    assert failed.value.reason is Reason.ADDRESS_REFUSED
    assert opened == []


def test_a_private_address_is_checked_if_the_source_permits_it(opened: list[str]) -> None:
    """Case 16, I17: metadata addresses are refused in any case."""
    with pytest.raises(StageFailed):
        open_connection("10.1.2.3", 8080)
    open_connection("10.1.2.3", 8080, allow_private=True)
    for host in ("169.254.169.254", "127.0.0.1", "100.64.0.1"):
        with pytest.raises(StageFailed):
            open_connection(host, 8080, allow_private=True)

    assert opened == ["10.1.2.3:8080"]
