"""The filters of proxy.pool_low: what can be read, and what is said where it cannot."""

from __future__ import annotations

import re

import pytest
from proxypool.leases.build import bridge_of, watched_of
from proxypool.leases.watched import read_watched
from proxypool.overrides import parse
from proxypool.settings import ROWS, Settings


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
def test_a_filter_that_cannot_be_read_says_why(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        read_watched(text)


def test_filters_that_cannot_be_read_are_ignored_and_reported(capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong setting stops no function."""
    known = Settings(
        redis_url="redis://127.0.0.1:9", leases_table="l", proxies_table="p", state_table="s",
        pool_low_filters=("country=us", "colour=blue"),
    )  # fmt: skip

    bridge = bridge_of(known)

    assert bridge.watched == ()
    assert "SettingsIgnored" in capsys.readouterr().out


def test_filters_of_the_settings_have_colons_between_conditions() -> None:
    """A comma separates the pairs of the overrides."""
    values, _ = parse("pool_low_filters=country=us:https=true+kind=residential", ROWS)

    found = watched_of(Settings(**values))  # type: ignore[arg-type]

    assert [one.name for one in found] == ["country=us,https=true", "kind=residential"]
