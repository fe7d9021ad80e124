"""The filters of proxy.pool_low: what can be read, and what is said where it cannot."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from proxypool.errors import ConfigurationError
from proxypool.leases.build import bridge_of
from proxypool.leases.watched import NAMES, read_watched
from proxypool.local import template
from proxypool.settings import Settings

ROOT = Path(__file__).parents[3]


def test_filters_stand_between_semicolons_and_their_conditions_between_commas() -> None:
    found = read_watched("country=us,https=true; kind=residential;")

    assert [one.name for one in found] == ["country=us,https=true", "kind=residential"]


def test_the_least_anonymity_takes_the_better_ones_too() -> None:
    """As `anonymity` of POST /leases."""
    (found,) = read_watched("protocol=http,anonymity=anonymous")

    assert found.sets == ("r:http:*:1", "r:http:*:2")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "colour=blue",
            "'colour' is no filter; known are protocol, country, anonymity, https, kind, region, tag, source",
        ),
        ("country", "country has no value"),
        ("country=US", "country is two lower-case letters, not 'US'"),
        ("country=us,country=de", "country stands twice in 'country=us,country=de'; between filters stands ';'"),
        ("protocol=quic", "'quic' is not a valid Protocol"),
        ("https=yes", "https is true or false, not 'yes'"),
        ("kind=", "kind has no value"),
    ],
)
def test_a_filter_that_cannot_be_read_fails_the_start_by_name(text: str, said: str) -> None:
    known = Settings(redis_url="redis://127.0.0.1:9", pool_low_filters=text)

    with pytest.raises(ConfigurationError, match=re.escape(f"POOL_LOW_FILTERS is missing or cannot be read: {said}")):
        bridge_of(known)


@pytest.mark.parametrize(
    ("text", "is_taken"),
    [("", True), *((f"{name}=x", True) for name in NAMES), ("country=us,https=true;kind=mobile", True), ("colour=x", False),
     ("country:us", False)],
)  # fmt: skip
def test_the_template_takes_the_filters_that_are_known_and_no_others(text: str, is_taken: bool) -> None:
    pattern = template.load(ROOT / "template.yaml")["Parameters"]["PoolLowFilters"]["AllowedPattern"]

    assert bool(re.fullmatch(pattern, text)) is is_taken
