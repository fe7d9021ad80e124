"""The filters of proxy.pool_low: what can be read, and what is said where it cannot."""

from __future__ import annotations

import re

import pytest
from proxypool.errors import ConfigurationError
from proxypool.leases.build import bridge_of
from proxypool.leases.filters import CONDITIONS
from proxypool.leases.watched import parse_watched
from proxypool.settings import Settings


def test_filters_are_separated_by_semicolons_and_conditions_by_commas() -> None:
    found = parse_watched("country=us,https=true; kind=residential;")

    assert [one.name for one in found] == ["country=us,https=true", "kind=residential"]


def test_the_least_anonymity_takes_the_better_ones_too() -> None:
    """As `anonymity` of POST /leases."""
    (found,) = parse_watched("protocol=http,anonymity=anonymous")

    assert found.sets == ("r:http:*:1", "r:http:*:2")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("colour=blue", f"'colour' is not a filter; known are {', '.join(CONDITIONS)}"),
        ("country", "country has no value"),
        ("country=US", "country must match [a-z]{2}, not 'US'"),
        ("country=us,country=de", "duplicate country in 'country=us,country=de'; filters are separated by ';'"),
        ("protocol=quic", "protocol must be one of http, https, socks4, socks5, not 'quic'"),
        ("https=yes", "https must be true or false, not 'yes'"),
        ("kind=", "kind has no value"),
        ("max_latency_ms=fast", "max_latency_ms must be integer, not 'fast'"),
        ("min_score=0.5", "'min_score' is not a filter"),
    ],
)
def test_a_filter_that_cannot_be_read_fails_the_start_by_name(text: str, said: str) -> None:
    known = Settings(redis_url="redis://127.0.0.1:9", pool_low_filters=text)

    with pytest.raises(ConfigurationError, match=re.escape(f"POOL_LOW_FILTERS is missing or cannot be read: {said}")):
        bridge_of(known)
