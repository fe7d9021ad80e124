"""The lease engine on a real Valkey in cluster mode."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import permutations

import pytest
from proxypool.errors import (
    IdempotencyConflict,
    NotFound,
    Paused,
    PoolEmpty,
    QuotaExceeded,
    Rebuilding,
    Unavailable,
)
from proxypool.leases.index.ready import Index
from proxypool.leases.pool import Lease, Pool, Request
from proxypool.proxies.proxy import Anonymity, Status
from proxypool_client.outcome import Outcome

from tests.support import servers
from tests.support.clock import Clock
from tests.support.leases import a_pool, a_record, keys_of, proxy_id


def take(pool: Pool, owner: str = "ann", key: str = "", **wanted: object) -> Lease:
    """One lease."""
    return pool.acquire(owner, Request(**{"ttl_seconds": 60, **wanted}), key=key)[0][0]  # type: ignore[arg-type]


def test_sixteen_threads_never_hold_one_proxy_twice(valkey_url: str) -> None:
    """I1, case 18."""
    pool = a_pool(valkey_url, *(a_record(number) for number in range(8)))
    held: set[str] = set()

    def work(_: int) -> None:
        while True:  # the test's timeout ends it
            try:
                lease = take(pool)
            except PoolEmpty:
                time.sleep(0.02)
                continue
            assert lease.proxy_id not in held
            held.add(lease.proxy_id)
            time.sleep(0.001)
            held.remove(lease.proxy_id)
            pool.release("ann", lease.id)
            return

    with ThreadPoolExecutor(16) as threads:
        list(threads.map(work, range(320)))

    assert pool.list_leases("ann") == []


def test_concurrent_requests_get_exactly_as_many_leases_as_there_are_proxies(valkey_url: str) -> None:
    """Input 64; refused callers come back spread out."""
    pool = a_pool(valkey_url, *(a_record(number) for number in range(10)))
    waits = []

    def ask(number: int) -> str:
        try:
            return take(pool, f"owner-{number}").proxy_id
        except PoolEmpty as error:
            waits.append(error.retry_after_seconds)
            return ""

    with ThreadPoolExecutor(64) as threads:
        got = [proxy for proxy in threads.map(ask, range(64)) if proxy]

    assert len(got) == len(set(got)) == 10
    assert all(wait and 1 <= wait <= 30 for wait in waits)


def test_the_same_key_finds_the_same_lease(valkey_url: str) -> None:
    """I2, input 58, case 19: also after the lease has ended, when no lease can be granted."""
    pool = a_pool(valkey_url, a_record(1), a_record(2))
    request = Request(ttl_seconds=60)

    first, was_repeated = pool.acquire("ann", request, key="k")
    again, is_repeated = pool.acquire("ann", request, key="k")
    other = take(pool, "bob", key="k")

    assert (was_repeated, is_repeated) == (False, True)
    assert again == first
    assert other.id != first[0].id
    with pytest.raises(IdempotencyConflict):
        pool.acquire("ann", Request(ttl_seconds=61), key="k")
    pool.release("ann", first[0].id)
    with pytest.raises(NotFound):
        pool.acquire("ann", request, key="k")


def test_a_foreign_lease_cannot_be_touched(valkey_url: str) -> None:
    """I3, inputs 57 and 59, case 20."""
    pool = a_pool(valkey_url, a_record(1))
    lease = take(pool)

    for lease_id in (lease.id, "0" * 32 + ".1"):
        with pytest.raises(NotFound):
            pool.release("eve", lease_id)
        with pytest.raises(NotFound):
            pool.renew("eve", lease_id, 900)
        with pytest.raises(NotFound):
            pool.report("eve", lease_id, Outcome.PROXY_ERROR)
        with pytest.raises(NotFound):
            pool.get("eve", lease_id)

    assert pool.list_leases("eve") == []
    assert pool.list_leases("ann") == [pool.get("ann", lease.id)] == [lease]


def test_an_expired_lease_frees_its_proxy_without_any_job(valkey_url: str, clock: Clock) -> None:
    """I4, I6, input 59: the old holder can neither release nor renew, and the new one's fence is above."""
    pool = a_pool(valkey_url, a_record(1))
    old = take(pool, ttl_seconds=1)
    clock.move(seconds=1)

    new = take(pool, "bob")

    assert new.proxy_id == old.proxy_id
    assert tuple(map(int, new.fence.split("-"))) > tuple(map(int, old.fence.split("-")))
    with pytest.raises(NotFound):
        pool.release("ann", old.id)
    with pytest.raises(NotFound):
        pool.renew("ann", old.id, 60)
    assert pool.list_leases("bob") == [new]


def test_renewing_never_shortens_and_stops_at_the_total(valkey_url: str) -> None:
    """I5."""
    pool = a_pool(valkey_url, a_record(1), max_lease_total_seconds=100)
    lease = take(pool, ttl_seconds=60)

    shorter = pool.renew("ann", lease.id, 1)
    longer = pool.renew("ann", lease.id, 80)
    longest = pool.renew("ann", lease.id, 900)

    assert shorter.expires_at == lease.expires_at
    assert lease.expires_at < longer.expires_at < longest.expires_at
    assert (longest.expires_at - lease.granted_at).total_seconds() == 100


@pytest.mark.parametrize(
    "changes",
    [
        {"status": Status.DEAD},
        {"status": Status.RETIRED},
        {"status": Status.UNCHECKED},
        {"tampered": True},
        {"failures_in_row": 1},
        {"last_checked_at": None},
        {"age_seconds": 3_601},
    ],
    ids=str,
)
def test_only_healthy_and_fresh_proxies_are_leased(valkey_url: str, changes: dict[str, object]) -> None:
    """I7, input 65: the refusal counts why."""
    pool = a_pool(valkey_url, a_record(1, **changes))

    with pytest.raises(PoolEmpty) as refusal:
        take(pool)

    assert refusal.value.problem()["reasons"]["leased"] == 0


def test_a_proxy_leaves_when_its_check_is_too_old(valkey_url: str, clock: Clock) -> None:
    """I7: no job and no new record is needed."""
    clock.stop()
    pool = a_pool(valkey_url, a_record(1), max_age_seconds=1)
    pool.release("ann", take(pool).id)
    clock.move(seconds=1)

    with pytest.raises(PoolEmpty):
        take(pool)


def test_a_proxy_that_died_in_a_lease_is_not_leased_again(valkey_url: str) -> None:
    """I7: its holder keeps the lease and its URL until the end."""
    pool = a_pool(valkey_url, a_record(1))
    lease = take(pool)

    Index(pool.cache, 3600).upsert([a_record(1, status=Status.DEAD, version=2)])

    assert pool.list_leases("ann") == [lease]
    pool.release("ann", lease.id)
    with pytest.raises(PoolEmpty):
        take(pool)
    assert pool.cache.command("HGETALL", f"{pool.cache.keys.tag}:p:{lease.proxy_id}") == ["v", "2"]


def test_replayed_and_disordered_records_end_in_the_same_index(valkey_url: str) -> None:
    """I11, input 81."""
    history = [a_record(1), a_record(1, country="us", version=2), a_record(1, status=Status.DEAD, version=3)]
    history.append(a_record(1, country="fr", version=4))
    for order in permutations(history):
        pool = a_pool(valkey_url)
        index = Index(pool.cache, 3600)

        for record in (*order, *order):
            index.upsert([record])

        assert take(pool, country="fr").country == "fr"
        for country in ("us", "de"):
            with pytest.raises(PoolEmpty):
                take(pool, country=country)


@pytest.mark.parametrize(
    ("wanted", "fits"),
    [
        ({"country": "us"}, {2}),
        ({"https": True}, {1, 2, 4}),
        ({"anonymity": Anonymity.ELITE}, {1, 2, 3}),
        ({"anonymity": Anonymity.ANONYMOUS}, {1, 2, 3, 4}),
        ({"max_latency_ms": 100}, {1, 2, 3, 4}),
        ({"min_score": 0.6}, {1, 2, 3, 4}),
        ({"distinct_exit": True, "country": "de", "anonymity": Anonymity.ELITE}, {1, 3}),
        ({"exclude": (proxy_id(1), proxy_id(5))}, {2, 3, 4}),
    ],
    ids=str,
)
def test_a_filter_selects_exactly_the_matching_proxies(
    valkey_url: str, wanted: dict[str, object], fits: set[int]
) -> None:
    """Each rule decides; a proxy that fits is found."""
    records = {
        1: a_record(1),
        2: a_record(2, country="us"),
        3: a_record(3, https=False),
        4: a_record(4, anonymity=Anonymity.ANONYMOUS),
        5: a_record(5, latency_ms=3_000.0, https=False, anonymity=Anonymity.TRANSPARENT),
    }
    pool = a_pool(valkey_url, *records.values())

    leases, _ = pool.acquire("ann", Request(ttl_seconds=60, count=50, **wanted))  # type: ignore[arg-type]

    assert {lease.proxy_id for lease in leases} == {records[number].id for number in fits}


def test_fewer_proxies_than_at_least_grant_no_lease(valkey_url: str) -> None:
    """A batch is all or nothing below `at_least`."""
    pool = a_pool(valkey_url, a_record(1), a_record(2))

    with pytest.raises(PoolEmpty):
        pool.acquire("ann", Request(ttl_seconds=60, count=5, at_least=3))

    assert len(pool.acquire("ann", Request(ttl_seconds=60, count=5, at_least=2))[0]) == 2


def test_one_owner_cannot_take_all(valkey_url: str) -> None:
    """Input 66: the quota counts live leases, and the operator's beats the parameter."""
    pool = a_pool(valkey_url, *(a_record(number) for number in range(5)), owner_quota=2)
    leases, _ = pool.acquire("ann", Request(ttl_seconds=60, count=5))

    with pytest.raises(QuotaExceeded):
        take(pool)
    pool.cache.command("HSET", pool.cache.keys.settings, "owner_quota", 3)

    assert len(leases) == 2
    assert take(pool)
    assert take(pool, "bob")


def test_a_pool_that_is_lost_paused_or_full_grants_nothing(valkey_url: str) -> None:
    """Input 78: 503 without an epoch, with the kill switch, and with a full journal."""
    pool = a_pool(valkey_url, a_record(1), is_open=False)
    with pytest.raises(Rebuilding):
        take(pool)
    pool.cache.command("HSET", pool.cache.keys.settings, "epoch", "1", "paused", "1")
    with pytest.raises(Paused):
        take(pool)
    pool.cache.command("HSET", pool.cache.keys.settings, "paused", "0")
    lease = take(pool)
    pool.release("ann", lease.id)

    full = replace(pool, limits=replace(pool.limits, journal_max=2))

    with pytest.raises(Unavailable):
        take(full)


def test_a_server_that_forgot_the_scripts_gets_them_again(valkey_url: str) -> None:
    """Input 77: NOSCRIPT is answered by sending the script, once."""
    pool = a_pool(valkey_url, a_record(1))
    pool.cache.command("SCRIPT", "FLUSH")

    assert take(pool)


def test_no_lease_data_can_be_evicted(valkey_url: str) -> None:
    """No key of a pool has a TTL (a serverless cache evicts keys that have one)."""
    pool = a_pool(valkey_url, a_record(1), a_record(2))
    take(pool, key="k")

    found = keys_of(pool.cache)

    assert len(found) >= 8
    assert {pool.cache.command("TTL", key) for key in found} == {-1}


def test_a_lost_connection_is_opened_again(valkey_url: str) -> None:
    """I21, input 77: 503 while the server is away; the next call finds its successor."""
    with servers.valkey_cluster() as url:
        pool = a_pool(url, a_record(1))
        take(pool)
    with pytest.raises(Unavailable):
        take(pool)

    pool.cache.url = valkey_url

    with pytest.raises(Rebuilding):
        take(pool)
