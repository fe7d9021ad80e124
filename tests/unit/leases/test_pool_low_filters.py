"""The filters of proxy.pool_low: parsing and error messages."""

from __future__ import annotations

import re

import pytest
from proxypool.config.overrides import parse
from proxypool.config.settings import SETTING_SPECS, Settings
from proxypool.leases.build import build_bridge, pool_low_filters
from proxypool.leases.filters import CONDITIONS
from proxypool.leases.index.pool_low_filters import parse_pool_low_filters


def test_filters_are_separated_by_semicolons_and_conditions_by_commas() -> None:
    found = parse_pool_low_filters("country=us,https=true; kind=residential;")

    assert [one.name for one in found] == ["country=us,https=true", "kind=residential"]


def test_the_least_anonymity_takes_the_better_ones_too() -> None:
    """As `anonymity` of POST /leases."""
    (found,) = parse_pool_low_filters("protocol=http,anonymity=anonymous")

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
def test_a_filter_that_cannot_be_read_says_why(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        parse_pool_low_filters(text)


def test_filters_that_cannot_be_read_are_ignored_and_reported(capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong setting stops no function."""
    known = Settings(
        redis_url="redis://127.0.0.1:9", leases_table="l", proxies_table="p", state_table="s",
        pool_low_filters=("country=us", "colour=blue"),
    )  # fmt: skip

    bridge = build_bridge(known)

    assert bridge.pool_low_filters == ()
    assert "SettingsIgnored" in capsys.readouterr().out


def test_filters_of_the_settings_have_colons_between_conditions() -> None:
    """A comma separates the pairs of the overrides."""
    values, _ = parse("pool_low_filters=country=us:https=true+kind=residential", SETTING_SPECS)

    found = pool_low_filters(Settings(**values))  # type: ignore[arg-type]

    assert [one.name for one in found] == ["country=us,https=true", "kind=residential"]
