"""The digest of listed proxies, and the caps that use it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from proxypool.config.settings import SETTING_SPECS
from proxypool.proxies.proxy import Status
from proxypool.sources.scrape.caps import Caps, apply_host_and_network_caps, largest_network
from proxypool.sources.scrape.digest import Digest, Mark, network_prefix, unpack

from tests.support.builders import NOW, a_proxy, a_record

FINGERPRINT = b"0123456789abcdef"
DAY = timedelta(days=1)


def test_a_row_is_not_read_again_for_a_day() -> None:
    """Idempotent writes: known rows are read once a day."""
    digest = Digest()
    digest.add([a_record(1)], NOW)

    assert digest.is_fresh(a_proxy(1), NOW + DAY - timedelta(seconds=1))
    assert not digest.is_fresh(a_proxy(1), NOW + DAY)
    assert not digest.is_fresh(a_proxy(2), NOW)


@given(st.sets(st.integers(1, 254)), st.binary(min_size=16, max_size=16))
def test_a_digest_is_only_unpacked_with_its_fingerprint(numbers: set[int], other: bytes) -> None:
    """Bytes with another fingerprint, and truncated ones, give an empty digest."""
    digest = Digest()
    digest.add(map(a_record, numbers), NOW)
    raw = digest.pack(FINGERPRINT)

    assert unpack(raw, FINGERPRINT) == digest
    assert unpack(raw, other).is_empty
    assert unpack(raw[:-1] if numbers else raw[:-3], FINGERPRINT).is_empty


@given(st.binary(max_size=200))
def test_any_bytes_are_a_digest_or_an_empty_one(raw: bytes) -> None:
    """The digest is a cache: no object in the bucket can stop a scrape."""
    assert unpack(raw, FINGERPRINT).is_empty


def test_an_entry_that_is_no_longer_listed_is_dropped_after_a_day() -> None:
    """The size of the digest is bounded by the list and its changes of one day."""
    digest = Digest()
    digest.add([a_record(1), a_record(2)], NOW)

    digest.retain([a_proxy(1)], NOW + timedelta(hours=23))
    assert digest.contains(a_proxy(2))
    digest.retain([a_proxy(1)], NOW + DAY)
    assert (digest.contains(a_proxy(1)), digest.contains(a_proxy(2))) == (True, False)


def test_the_yield_counts_checked_proxies_that_are_a_day_old() -> None:
    """Alive yield after 24 h, and proxies that no other source lists."""
    old = NOW - DAY
    records = [
        a_record(1, first_seen_at=old, last_checked_at=NOW, status=Status.ACTIVE, sources=frozenset({"a"})),
        a_record(2, first_seen_at=old, last_checked_at=NOW, status=Status.DEAD, sources=frozenset({"a", "b"})),
        a_record(3, first_seen_at=old, sources=frozenset({"a"})),  # never checked: not counted
        a_record(4, last_checked_at=NOW, status=Status.ACTIVE),  # an hour old
    ]
    digest = Digest()
    digest.add(records, NOW)

    marks = digest.count_marks([record.proxy for record in records])

    assert (marks[Mark.AGED], marks[Mark.ALIVE], marks[Mark.EXCLUSIVE]) == (2, 1, 2)


@pytest.mark.parametrize(
    ("host", "network"),
    [
        ("198.51.100.7", "198.51.100"),
        ("2001:db8:1:2::3", "2001:db8:1"),
        ("2001:db8::3", "2001:db8:0"),
        ("::1", "0:0:0"),
        ("gw.example.net", "gw.example.net"),
    ],
)
def test_the_network_of_a_host(host: str, network: str) -> None:
    assert network_prefix(host) == network


def test_new_proxies_per_host_and_network_are_capped() -> None:
    """Input 31: caps per host and per /24; rows over a cap are counted; known ones pass."""
    ports = [a_proxy(1, port=port) for port in range(1000, 1100)]
    neighbours = [a_proxy(number) for number in range(2, 60)]
    caps = Caps(per_host=10, per_network=30)

    passed, held_back = apply_host_and_network_caps([*ports, *neighbours], Digest(), caps)

    assert passed == [*ports[:10], *neighbours[:20]]
    assert held_back == {"per_host": 90, "per_network": 38}
    assert apply_host_and_network_caps(ports, Digest(), None) == (ports, {})


def test_changing_ports_with_every_scrape_does_not_evade_the_cap() -> None:
    """Input 31: proxies listed within the day count, too."""
    digest = Digest()
    digest.add([replace(a_record(1), proxy=a_proxy(1, port=port)) for port in range(1000, 1010)], NOW)

    passed, held_back = apply_host_and_network_caps(
        [a_proxy(1, port=port) for port in range(1005, 1020)], digest, Caps(10, 30)
    )

    assert [proxy.port for proxy in passed] == list(range(1005, 1010))
    assert held_back == {"per_host": 10}


def test_the_largest_network_is_counted() -> None:
    """Input 25: a list that flips to one /24."""
    assert largest_network([a_proxy(1), a_proxy(2), a_proxy(3, host="192.0.2.1")]) == 2
    assert largest_network([]) == 0


def test_a_pruned_proxy_is_pruned_again_after_at_least_seven_days() -> None:
    """A row that is added again has a new first_seen_at, and is removed after dead_retention_days at the earliest."""
    assert SETTING_SPECS["dead_retention_days"].low >= 7
