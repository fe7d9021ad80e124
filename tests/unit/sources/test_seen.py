"""The digest of what a source listed, and the caps that count with it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from proxypool.config.settings import ROWS
from proxypool.proxies.proxy import Status
from proxypool.sources.scrape.caps import Caps, largest_network, within
from proxypool.sources.scrape.digest import Mark, Seen, network_of, unpack

from tests.support.builders import NOW, a_proxy, a_record

FINGERPRINT = b"0123456789abcdef"
DAY = timedelta(days=1)


def test_a_row_is_left_alone_for_a_day() -> None:
    """Idempotent writes: known rows are looked at once a day."""
    seen = Seen()
    seen.note([a_record(1)], NOW)

    assert seen.is_fresh(a_proxy(1), NOW + DAY - timedelta(seconds=1))
    assert not seen.is_fresh(a_proxy(1), NOW + DAY)
    assert not seen.is_fresh(a_proxy(2), NOW)


@given(st.sets(st.integers(1, 254)), st.binary(min_size=16, max_size=16))
def test_what_is_packed_is_unpacked_under_its_fingerprint_alone(numbers: set[int], other: bytes) -> None:
    """A lost or foreign digest is an empty one."""
    seen = Seen()
    seen.note(map(a_record, numbers), NOW)
    raw = seen.pack(FINGERPRINT)

    assert unpack(raw, FINGERPRINT) == seen
    assert unpack(raw, other).is_empty
    assert unpack(raw[:-1] if numbers else raw[:-3], FINGERPRINT).is_empty


@given(st.binary(max_size=200))
def test_any_bytes_are_a_digest_or_an_empty_one(raw: bytes) -> None:
    """It is a hint: nothing in the bucket can stop a scrape."""
    assert unpack(raw, FINGERPRINT).is_empty


def test_what_is_listed_no_more_is_forgotten_after_a_day() -> None:
    """The digest stays as long as the list, and its churn of a day."""
    seen = Seen()
    seen.note([a_record(1), a_record(2)], NOW)

    seen.keep([a_proxy(1)], NOW + timedelta(hours=23))
    assert seen.holds(a_proxy(2))
    seen.keep([a_proxy(1)], NOW + DAY)
    assert (seen.holds(a_proxy(1)), seen.holds(a_proxy(2))) == (True, False)


def test_the_yield_counts_what_is_a_day_old_and_checked() -> None:
    """Alive yield after 24 h, and what no other source lists."""
    old = NOW - DAY
    records = [
        a_record(1, first_seen_at=old, last_checked_at=NOW, status=Status.ACTIVE, sources=frozenset({"a"})),
        a_record(2, first_seen_at=old, last_checked_at=NOW, status=Status.DEAD, sources=frozenset({"a", "b"})),
        a_record(3, first_seen_at=old, sources=frozenset({"a"})),  # never checked: says nothing
        a_record(4, last_checked_at=NOW, status=Status.ACTIVE),  # an hour old
    ]
    seen = Seen()
    seen.note(records, NOW)

    marks = seen.marked([record.proxy for record in records])

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
def test_a_host_stands_in_a_network(host: str, network: str) -> None:
    assert network_of(host) == network


def test_a_list_that_names_one_hosts_ports_gets_a_few_of_them() -> None:
    """Input 31: caps per host and per /24; what is held back is counted; known ones pass."""
    ports = [a_proxy(1, port=port) for port in range(1000, 1100)]
    neighbours = [a_proxy(number) for number in range(2, 60)]
    caps = Caps(per_host=10, per_network=30)

    passed, held = within([*ports, *neighbours], Seen(), caps)

    assert passed == [*ports[:10], *neighbours[:20]]
    assert held == {"per_host": 90, "per_network": 38}
    assert within(ports, Seen(), None) == (ports, {})


def test_a_list_that_changes_its_ports_with_every_scrape_gains_nothing() -> None:
    """Input 31: what was listed within the day counts, too."""
    seen = Seen()
    seen.note([replace(a_record(1), proxy=a_proxy(1, port=port)) for port in range(1000, 1010)], NOW)

    passed, held = within([a_proxy(1, port=port) for port in range(1005, 1020)], seen, Caps(10, 30))

    assert [proxy.port for proxy in passed] == list(range(1005, 1010))
    assert held == {"per_host": 10}


def test_the_largest_network_is_counted() -> None:
    """Input 25: a list that flips to one /24."""
    assert largest_network([a_proxy(1), a_proxy(2), a_proxy(3, host="192.0.2.1")]) == 2
    assert largest_network([]) == 0


def test_what_pruning_removed_comes_back_once_in_seven_days_at_most() -> None:
    """A row that came back was first seen then, and is removed after dead_retention_days at the earliest."""
    assert ROWS["dead_retention_days"].low >= 7
