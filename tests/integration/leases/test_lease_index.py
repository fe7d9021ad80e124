"""Concurrent writes to the index: versions, tombstones, retirement during a lease, re-listing, a rebuild during a delete."""

from __future__ import annotations

from datetime import timedelta

import pytest
from proxypool import clock
from proxypool.errors import PoolEmpty
from proxypool.leases.index.ready import STUB_MS, Index
from proxypool.leases.pool import Pool, Request
from proxypool.proxies.proxy import Status
from proxypool.proxies.record import TargetFact

from tests.support.lease_clock import movable_clock, now_ms, set_clock
from tests.support.leases import a_pool, a_record, keys_of


def index_of(pool: Pool) -> Index:
    """The index of a pool."""
    return Index(pool.cache, 3600)


def leasable(pool: Pool) -> set[str]:
    """Leases and releases all proxies that can be leased; returns them."""
    for memo in pool.cache.command("KEYS", f"{pool.cache.keys.tag}:memo:*"):
        pool.cache.command("DEL", memo)
    try:
        leases, _ = pool.acquire("look", Request(ttl_seconds=60, count=50))
    except PoolEmpty:
        return set()
    pool.release_many("look", [lease.id for lease in leases])
    return {lease.proxy_id for lease in leases}


def test_a_removed_proxy_is_not_revived_by_a_late_record(valkey_url: str) -> None:
    """I11, input 81: its version remains as a tombstone for twice the retention of the stream, then it is deleted."""
    with movable_clock():
        pool, now = a_pool(valkey_url, a_record(1, version=5)), now_ms()
        index_of(pool).remove([(a_record(1).id, 7)])

        assert index_of(pool).upsert([a_record(1, version=7)]) == 0
        assert leasable(pool) == set()
        set_clock(pool.cache, now + STUB_MS + 60_000)
        pool.cache.run("expire", 100)
        assert keys_of(pool.cache) == [key for key in keys_of(pool.cache) if ":p:" not in key]


def test_a_proxy_that_is_listed_again_after_pruning_is_leased(valkey_url: str) -> None:
    """I11: a new row's version begins above every old one."""
    pool = a_pool(valkey_url, a_record(1, version=5))
    index_of(pool).remove([(a_record(1).id, 7)])

    assert index_of(pool).upsert([a_record(1, version=9)]) == 1

    assert leasable(pool) == {a_record(1).id}


def test_a_tombstone_of_a_proxy_that_is_back_removes_nothing(valkey_url: str) -> None:
    """I11: the proxy is indexed again when its tombstone expires."""
    with movable_clock():
        pool = a_pool(valkey_url, a_record(1, version=5))
        index_of(pool).remove([(a_record(1).id, 7)])
        index_of(pool).upsert([a_record(1, version=9, interval_seconds=10**6)])

        set_clock(pool.cache, now_ms() + STUB_MS + 60_000)
        pool.cache.run("expire", 100)

        assert leasable(pool) == {a_record(1).id}


@pytest.mark.parametrize("delete_first", [True, False])
def test_a_rebuild_that_races_a_delete_does_not_bring_the_proxy_back(valkey_url: str, delete_first: bool) -> None:
    """I11: the newer version wins in any order."""
    pool = a_pool(valkey_url, a_record(1, version=5))
    if delete_first:
        index_of(pool).remove([(a_record(1).id, 5)])
    index_of(pool).upsert([a_record(1, version=5)], again=True)
    index_of(pool).remove([(a_record(1).id, 5)])

    assert leasable(pool) == set()


def test_a_rebuild_repairs_changes_that_the_stream_lost(valkey_url: str) -> None:
    """I11: rows of equal version are written again, holders stay."""
    pool = a_pool(valkey_url, a_record(1), a_record(2))
    held = pool.acquire("ann", Request(ttl_seconds=60))[0][0]
    other = ({a_record(1).id, a_record(2).id} - {held.proxy_id}).pop()
    for key in keys_of(pool.cache):
        if ":r:" in key:
            pool.cache.command("DEL", key)

    assert index_of(pool).upsert([a_record(1), a_record(2)]) == 0
    assert index_of(pool).upsert([a_record(1), a_record(2)], again=True) == 2

    assert leasable(pool) == {other}
    assert pool.list_leases("ann") == [held]


def test_a_proxy_that_is_retired_in_a_lease_ends_with_it(valkey_url: str) -> None:
    """I7: its holder keeps the lease and its URL, no other owner gets it, and only the tombstone remains."""
    pool = a_pool(valkey_url, a_record(1))
    lease = pool.acquire("ann", Request(ttl_seconds=60))[0][0]
    index_of(pool).upsert([a_record(1, status=Status.RETIRED, version=2)])

    assert pool.renew("ann", lease.id, 90).proxy_url == lease.proxy_url
    assert leasable(pool) == set()
    pool.release("ann", lease.id)

    assert leasable(pool) == set()
    assert pool.cache.command("HGETALL", f"{pool.cache.keys.tag}:p:{lease.proxy_id}") == ["v", "2"]


def test_a_proxy_that_changed_in_a_lease_comes_back_as_it_is_now(valkey_url: str) -> None:
    """I11: no member of its old facts stays behind in a ready set."""
    pool = a_pool(valkey_url, a_record(1))
    lease = pool.acquire("ann", Request(ttl_seconds=60))[0][0]
    index_of(pool).upsert([a_record(1, country="fr", tags=frozenset({"new"}), version=2)])
    pool.release("ann", lease.id)

    found = pool.acquire("ann", Request(ttl_seconds=60, country="fr", tags=("new",)))[0][0]

    assert found.proxy_id == lease.proxy_id
    pool.release("ann", found.id)
    with pytest.raises(PoolEmpty):
        pool.acquire("ann", Request(ttl_seconds=60, country="de"))
    sets = [key for key in keys_of(pool.cache) if ":r:" in key]
    assert sum(pool.cache.command("ZCARD", key) for key in sets) == 2


def test_an_exit_rests_for_a_target_whose_rule_it_failed_until_the_next_check(valkey_url: str) -> None:
    """Case 7: banned for that target, leased for others."""
    now = clock.now()
    facts = {"shop.example": TargetFact(verdict="banned", at=now), "news.example": TargetFact(verdict="ok", at=now)}
    pool = a_pool(valkey_url, a_record(1, targets=facts, next_check_at=now + timedelta(minutes=10)))

    with pytest.raises(PoolEmpty) as empty:
        pool.acquire("ann", Request(ttl_seconds=60, target="shop.example"))
    lease = pool.acquire("ann", Request(ttl_seconds=60, target="news.example"))[0][0]

    assert empty.value.extra["reasons"]["cooling"] == 1
    pool.release("ann", lease.id)
    later = a_record(1, version=2, targets=facts, next_check_at=now - timedelta(seconds=1))
    other = a_pool(valkey_url, later)
    assert other.acquire("ann", Request(ttl_seconds=60, target="shop.example"))


def test_a_gateway_never_rests_since_its_next_exit_is_another_one(valkey_url: str) -> None:
    now = clock.now()
    facts = {"shop.example": TargetFact(verdict="banned", at=now)}
    pool = a_pool(valkey_url, a_record(1, slots=5, targets=facts, next_check_at=now + timedelta(minutes=10)))

    assert pool.acquire("ann", Request(ttl_seconds=60, target="shop.example"))[0]
    assert not [key for key in keys_of(pool.cache) if ":pace:" in key]


def test_an_exit_that_rested_is_forgotten(valkey_url: str) -> None:
    """Case 7: nothing of a target stays behind for ever."""
    now = clock.now()
    with movable_clock():
        rests = {
            "targets": {"shop.example": TargetFact(verdict="banned", at=now)},
            "next_check_at": now + timedelta(minutes=10),
        }
        pool = a_pool(valkey_url, a_record(1, **rests))
        pace = f"{pool.cache.keys.tag}:pace:shop.example"
        left = []
        for minutes in (2, 12):
            set_clock(pool.cache, int((now + timedelta(minutes=minutes)).timestamp() * 1000))
            pool.cache.run("expire", 100)
            left.append(pool.cache.command("EXISTS", pace))

    assert left == [1, 0]
