"""Keys that the scripts leave: only the journal of an ended lease; only leasable proxies in the ready sets."""

from __future__ import annotations

from typing import Any

import pytest
from proxypool.errors import NotFound, PoolEmpty
from proxypool.leases.index.ready import Index
from proxypool.leases.ledger import journal
from proxypool.leases.pool import Pool, Request
from proxypool.proxies.proxy import Protocol
from proxypool_client.outcome import Outcome

from tests.support.clock import Clock
from tests.support.lease_clock import movable_clock, now_ms, set_clock
from tests.support.leases import a_pool, a_record, keys_of

READS = {"hash": ("HGETALL",), "zset": ("ZRANGE", 0, -1, "WITHSCORES"), "set": ("SMEMBERS",)}
COUNTERS = ("n", "h")  # of a proxy: its grants, and its holders; "0" is none


def held_by(pool: Pool) -> dict[str, Any]:
    """All that the pool's keys hold, but for the journal and how often each proxy was granted."""
    found: dict[str, Any] = {}
    for key in keys_of(pool.cache):
        kind = pool.cache.command("TYPE", key)
        if kind in READS:
            name, *rest = READS[kind]
            found[key] = pool.cache.command(str(name), key, *rest)
        if ":p:" in key:
            pairs = zip(found[key][::2], found[key][1::2], strict=True)
            found[key] = {field: text for field, text in pairs if field != "n" and (field, text) != ("h", "0")}
    return found


def ready(pool: Pool) -> int:
    """The number of proxies in the ready sets, as the gauges count them."""
    return int(pool.cache.run("gauge", *Protocol)[0])


@pytest.mark.parametrize("ends", ["released", "expired"])
def test_only_the_journal_of_an_ended_lease_remains(valkey_url: str, ends: str) -> None:
    """I4: after a release and after expiry."""
    with movable_clock():
        pool, now = a_pool(valkey_url, a_record(1), a_record(2, slots=2)), now_ms()
        set_clock(pool.cache, now)
        before = held_by(pool)

        leases, _ = pool.acquire("ann", Request(ttl_seconds=60, count=3, target="shop.example"))
        if ends == "released":
            assert pool.release_many("ann", [lease.id for lease in leases]) == []
        else:
            set_clock(pool.cache, now + 60_000)
            assert pool.cache.run("expire", 100) == [3, 3]  # things, and leases among them

        assert len(leases) == 3
        set_clock(pool.cache, now)
        assert held_by(pool) == before


def test_an_ended_lease_never_becomes_active_again(valkey_url: str) -> None:
    """I5, input 79: the next script that reads it ends it, and a clock that jumps back does not restore it."""
    with movable_clock():
        pool, now = a_pool(valkey_url, a_record(1)), now_ms()
        set_clock(pool.cache, now)
        lease = pool.acquire("ann", Request(ttl_seconds=60))[0][0]
        set_clock(pool.cache, now + 60_000)
        assert pool.list_leases("ann") == []

        set_clock(pool.cache, now + 30_000)

        with pytest.raises(NotFound):
            pool.renew("ann", lease.id, 60)
        assert pool.acquire("bob", Request(ttl_seconds=60))


def test_an_idempotency_key_expires_after_its_window(valkey_url: str) -> None:
    """I2: not before, or a repeat would be granted; and not never."""
    with movable_clock():
        pool, now = a_pool(valkey_url, a_record(1)), now_ms()
        window_ms = (pool.limits.total_seconds + 2 * pool.limits.ttl_seconds) * 1000
        kept = []
        set_clock(pool.cache, now)
        pool.acquire("ann", Request(ttl_seconds=60), key="k")
        for at in (window_ms - 1, window_ms):
            set_clock(pool.cache, now + at)
            pool.cache.run("expire", 100)
            kept.append(pool.cache.command("HLEN", f"{pool.cache.keys.tag}:asked"))

    assert kept == [1, 0]


def test_a_proxy_that_cannot_be_leased_is_in_no_ready_set(valkey_url: str) -> None:
    """I7: held, its breaker open, its check too old: `pool_low` and the searches count none of them."""
    with movable_clock():
        pool, now = a_pool(valkey_url, a_record(1), a_record(2), breaker_failures=1), now_ms()
        set_clock(pool.cache, now)
        assert ready(pool) == 2
        lease = pool.acquire("ann", Request(ttl_seconds=60))[0][0]
        assert ready(pool) == 1
        pool.release("ann", lease.id)
        assert ready(pool) == 2
        lease = pool.acquire("ann", Request(ttl_seconds=60))[0][0]
        pool.release("ann", lease.id, Outcome.CREDENTIALS)
        assert ready(pool) == 1

        set_clock(pool.cache, now + 3_700_000)
        pool.cache.run("expire", 100)

        assert ready(pool) == 0
        assert not [key for key in keys_of(pool.cache) if ":r:" in key or key.endswith(":fresh")]


def test_a_gateway_whose_breaker_opens_leaves_the_ready_sets_although_it_has_slots(valkey_url: str) -> None:
    """I7, case 23: at the report, not at the release."""
    pool = a_pool(valkey_url, a_record(1, slots=3), breaker_failures=1)
    lease = pool.acquire("ann", Request(ttl_seconds=60))[0][0]
    assert ready(pool) == 1

    pool.report("ann", lease.id, Outcome.PROXY_ERROR)

    assert ready(pool) == 0


@pytest.mark.parametrize("reported", [False, True])
def test_the_journal_contains_a_leases_outcome(valkey_url: str, reported: bool) -> None:
    """I23: reported with the release, or before it."""
    pool = a_pool(valkey_url, a_record(1))
    lease = pool.acquire("ann", Request(ttl_seconds=60))[0][0]
    if reported:
        pool.report("ann", lease.id, Outcome.BLOCKED)
    pool.release("ann", lease.id, None if reported else Outcome.BLOCKED)

    entries, _ = journal.parse_entries(pool.cache.command("XRANGE", pool.cache.keys.journal, "-", "+"))

    assert [(row.ended, row.outcome) for row in journal.ledger_rows(entries)] == [("released", "blocked")]
    assert [one.outcome for one in entries if one.kind in (journal.EntryKind.OUTCOME, journal.EntryKind.RELEASE)] == [
        "blocked"
    ] * 2


def test_only_the_version_of_a_removed_proxy_remains(valkey_url: str) -> None:
    """I11: until its tombstone expires."""
    pool = a_pool(valkey_url, a_record(1))
    Index(pool.cache, 3600).remove([(a_record(1).id, 1)])

    found = held_by(pool)

    tag = pool.cache.keys.tag
    assert set(found) == {pool.cache.keys.settings, f"{tag}:due", f"{tag}:p:{a_record(1).id}"}
    assert list(found[f"{tag}:p:{a_record(1).id}"]) == ["v"]


def test_the_gauges_count_the_pool(valkey_url: str, clock: Clock) -> None:
    """Each refusal is counted once."""
    clock.stop()
    pool = a_pool(valkey_url, a_record(1), a_record(2))
    assert pool.cache.run("gauge", *Protocol) == [2, 0, 0, 0, []]
    pool.acquire("ann", Request(ttl_seconds=60))
    clock.move(seconds=0.01)
    for country in ("fr", "it"):
        with pytest.raises(PoolEmpty):
            pool.acquire("ann", Request(ttl_seconds=60, country=country))

    first, second = (pool.cache.run("gauge", *Protocol) for _ in range(2))

    assert first[:3] == second[:3] == [1, 1, 1]
    assert first[3] == 10
    assert first[4] == ["empty", "2"]
    assert second[4] == []


def test_a_lock_is_released_only_by_the_run_that_holds_it(valkey_url: str) -> None:
    """A run that overran its lock does not free its successor's."""
    pool = a_pool(valkey_url)
    pool.cache.command("SET", pool.cache.keys.lock, "run-2")

    pool.cache.run("unlock", "run-1")
    assert pool.cache.command("GET", pool.cache.keys.lock) == "run-2"
    pool.cache.run("unlock", "run-2")

    assert pool.cache.command("EXISTS", pool.cache.keys.lock) == 0
