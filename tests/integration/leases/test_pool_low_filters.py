"""How many ready proxies fit a filter, counted in a real Valkey."""

from __future__ import annotations

from typing import Any

import pytest
from proxypool.leases.filters import CONDITIONS
from proxypool.leases.index import pool_low_filters
from proxypool.leases.index.pool_low_filters import parse_pool_low_filters
from proxypool.proxies.proxy import Anonymity, Kind, Protocol
from proxypool.proxies.record import ProxyRecord

from tests.support.lease_filters import EXAMPLES, Example, fitting
from tests.support.leases import a_pool, a_record


def records() -> tuple[ProxyRecord, ...]:
    """Five proxies that were checked a moment ago."""
    return (
        a_record(1, country="us"),
        a_record(2, country="us", https=False, kind=Kind.RESIDENTIAL, tags=frozenset({"paid"})),
        a_record(3, country="de", region="be", kind=Kind.RESIDENTIAL, sources=frozenset({"mine", "theirs"})),
        a_record(4, country=None, anonymity=Anonymity.TRANSPARENT, protocol=Protocol.SOCKS5),
        a_record(5, country="us", failures_in_row=1),  # active, and not ready
    )


@pytest.mark.parametrize(
    ("text", "ready"),
    [
        ("country=us", 2),
        ("country=fr", 0),
        ("protocol=http", 3),
        ("anonymity=anonymous", 3),
        ("https=true", 3),
        ("https=false", 1),
        ("kind=residential", 2),
        ("country=us,kind=residential", 1),
        ("region=be", 1),
        ("tag=paid", 1),
        ("tag=pai", 0),
        ("source=theirs", 1),
        ("protocol=socks5,https=true", 1),
        ("max_latency_ms=50", 4),
        ("max_latency_ms=49", 0),
    ],
)
def test_a_filter_counts_the_ready_proxies_that_fit_it(
    valkey_url: str, monkeypatch: pytest.MonkeyPatch, text: str, ready: int
) -> None:
    monkeypatch.setattr(pool_low_filters, "MEMBERS_PER_CALL", 2)
    pool = a_pool(valkey_url, *records())
    (filter_,) = parse_pool_low_filters(text)

    assert filter_.ready(pool.cache, enough=20) == ready


@pytest.mark.parametrize("example", [one for one in EXAMPLES if one.name != "min_score"], ids=lambda one: one.name)
def test_each_filter_of_a_lease_is_a_condition(valkey_url: str, example: Example) -> None:
    """It counts the proxy that fits it, and not for a value which that proxy does not have."""
    pool = a_pool(valkey_url, a_record(1, **fitting()))
    name = next(name for name, row in CONDITIONS.items() if row.name == example.name)

    assert [
        one.ready(pool.cache, enough=20) for one in parse_pool_low_filters(f"{name}={as_text(example.wanted)}")
    ] == [1]
    if example.other is not None:
        assert [
            one.ready(pool.cache, enough=20) for one in parse_pool_low_filters(f"{name}={as_text(example.other)}")
        ] == [0]


def as_text(value: Any) -> str:
    """A requested value as a condition has it: of several tags the first."""
    return "true" if value is True else str(value[0] if isinstance(value, tuple) else value)


def test_no_more_members_are_read_than_the_mark_needs(valkey_url: str) -> None:
    pool = a_pool(valkey_url, *records())
    (filter_,) = parse_pool_low_filters("https=true")

    assert filter_.ready(pool.cache, enough=2) == 2
