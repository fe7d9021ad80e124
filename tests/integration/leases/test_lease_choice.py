"""Which proxy acquire takes, and what a refusal costs the next caller. On a real Valkey."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from proxypool.errors import PoolEmpty
from proxypool.leases.pool import Lease, Pool, Request, Strategy
from proxypool.proxies.proxy import Protocol
from proxypool.proxies.score import score

from tests.support import servers
from tests.support.clock import Clock
from tests.support.lease_clock import movable_clock, now_ms, set_clock
from tests.support.leases import a_pool, a_record

GRADES = [1.0, 3.0, 9.0, 27.0, 81.0]  # passed checks: the more, the better


def graded(url: str) -> tuple[Pool, list[str]]:
    """Five proxies, worst first."""
    records = [a_record(number, passed=passed, failed=1.0) for number, passed in enumerate(GRADES)]
    assert sorted(records, key=lambda record: score(record.check, record.lease).value) == records
    return a_pool(url, *records), [record.id for record in records]


def use(pool: Pool, strategy: Strategy, times: int, **wanted: Any) -> list[str]:
    """Acquires and releases leases in turn; returns their proxies."""
    got = []
    for _ in range(times):
        lease: Lease = pool.acquire("ann", Request(ttl_seconds=60, strategy=strategy, **wanted))[0][0]
        got.append(lease.proxy_id)
        pool.release("ann", lease.id)
    return got


def test_best_takes_the_best_that_is_free(valkey_url: str) -> None:
    """By score, also across several ready sets."""
    pool, ids = graded(valkey_url)

    batch = [
        lease.proxy_id for lease in pool.acquire("ann", Request(ttl_seconds=60, count=3, strategy=Strategy.BEST))[0]
    ]

    assert batch == ids[:1:-1]
    assert set(use(pool, Strategy.BEST, 3)) == {ids[1]}


def test_best_takes_a_batch_from_the_set_where_the_best_are(valkey_url: str) -> None:
    """Six of one protocol are all better than six of another."""
    good = [a_record(number, passed=81.0, failed=1.0, protocol=Protocol.SOCKS5) for number in range(6)]
    pool = a_pool(valkey_url, *good, *(a_record(number, passed=3.0, failed=1.0) for number in range(6, 12)))

    leases, _ = pool.acquire("ann", Request(ttl_seconds=60, count=6, strategy=Strategy.BEST))

    assert {lease.proxy_id for lease in leases} == {record.id for record in good}


def test_round_robin_takes_each_in_turn(valkey_url: str) -> None:
    """No proxy twice before each was used once."""
    pool, ids = graded(valkey_url)

    got = use(pool, Strategy.ROUND_ROBIN, 15)

    assert got == ids[::-1] * 3


def test_least_used_evens_out(valkey_url: str) -> None:
    """After each of fifty leases no proxy was used twice more than another: a window holds all of so few proxies."""
    pool, ids = graded(valkey_url)

    got = use(pool, Strategy.LEAST_USED, 50)

    for number in range(1, len(got) + 1):
        used = Counter(got[:number])
        assert max(used.values()) - min(used[one] for one in ids) <= 1


def test_random_ignores_the_score_and_weighted_does_not(valkey_url: str) -> None:
    """400 draws: with random the worst proxy gets its fifth, with weighted less than half of the best one's share."""
    pool, ids = graded(valkey_url)

    fair, weighted = (Counter(use(pool, strategy, 400)) for strategy in (Strategy.RANDOM, Strategy.WEIGHTED))

    assert all(40 <= fair[one] <= 130 for one in ids)
    assert 2 * weighted[ids[0]] < weighted[ids[-1]]
    assert set(weighted) == set(ids)


def test_two_servers_do_not_draw_one_sequence() -> None:
    """The draw is seeded by the request: a server that has just started draws as freely as any."""
    drawn = []
    for _ in range(2):
        with servers.valkey_cluster() as url:
            pool, _ids = graded(url)
            drawn.append(use(pool, Strategy.RANDOM, 12))
            pool.cache.close()

    assert drawn[0] != drawn[1]


def test_a_refusal_is_cached_for_equal_requests_only(valkey_url: str, clock: Clock) -> None:
    """Case 18: impossible requests do not slow down others; a proxy that becomes free is granted within 250 ms."""
    pool = a_pool(valkey_url, a_record(1))
    lease = pool.acquire("ann", Request(ttl_seconds=60))[0][0]
    asks = Request(ttl_seconds=60, country="de")
    with pytest.raises(PoolEmpty):
        pool.acquire("bob", asks)
    pool.release("ann", lease.id)

    pool.release("eve", pool.acquire("eve", Request(ttl_seconds=60))[0][0].id)
    clock.move(seconds=0.25)

    assert pool.acquire("bob", asks)
    assert len(pool.cache.command("KEYS", f"{pool.cache.keys.tag}:memo:*")) <= 1


def test_a_refusal_cached_before_a_clock_jump_is_ignored(valkey_url: str) -> None:
    """Input 79: an instant that is further off than any memory reaches is none."""
    pool = a_pool(valkey_url)
    with pytest.raises(PoolEmpty):
        pool.acquire("ann", Request(ttl_seconds=60))
    (memo,) = pool.cache.command("KEYS", f"{pool.cache.keys.tag}:memo:*")
    pool.cache.command("SET", memo, f'{now_ms() + 300_000}|7|["jumped",1]')

    with pytest.raises(PoolEmpty) as refusal:
        pool.acquire("ann", Request(ttl_seconds=60))

    assert refusal.value.problem()["reasons"] == {"candidates": 0, "leased": 0}


def test_a_recent_refusal_is_repeated(valkey_url: str) -> None:
    """Case 18: it is not computed again while it is remembered."""
    with movable_clock():
        pool, now, told = a_pool(valkey_url), now_ms(), []
        set_clock(pool.cache, now)
        with pytest.raises(PoolEmpty):
            pool.acquire("ann", Request(ttl_seconds=60))
        (memo,) = pool.cache.command("KEYS", f"{pool.cache.keys.tag}:memo:*")
        pool.cache.command("SET", memo, f'{now + 200}|7|["told",1]')
        for at in (199, 200):
            set_clock(pool.cache, now + at)
            with pytest.raises(PoolEmpty) as refusal:
                pool.acquire("ann", Request(ttl_seconds=60))
            told.append(refusal.value.problem()["reasons"])

    assert told == [{"told": 1}, {"candidates": 0, "leased": 0}]


def test_a_refusal_has_the_time_until_the_first_lease_ends(valkey_url: str, clock: Clock) -> None:
    """Input 64: five seconds, and the spread of those who come back."""
    clock.stop()
    pool = a_pool(valkey_url, a_record(1))
    pool.acquire("ann", Request(ttl_seconds=5))

    with pytest.raises(PoolEmpty) as refusal:
        pool.acquire("bob", Request(ttl_seconds=60))

    assert 1 <= (refusal.value.retry_after_seconds or 0) <= 10


def test_a_cached_refusal_has_the_same_reasons(valkey_url: str) -> None:
    """Case 33."""
    pool = a_pool(valkey_url, a_record(1, https=False))
    told = []
    for _ in range(2):
        with pytest.raises(PoolEmpty) as refusal:
            pool.acquire("ann", Request(ttl_seconds=60, https=True))
        told.append(refusal.value.problem()["reasons"])

    assert told == [{"candidates": 1, "filtered": 1, "leased": 0}] * 2


def test_a_refusal_counts_who_waits_for_an_exit(valkey_url: str) -> None:
    """Input 65: the proxy is free, its exit is not."""
    pool = a_pool(valkey_url, a_record(1, exit_ip="127.1.0.9"), a_record(2, exit_ip="127.1.0.9"))
    pool.cache.command("HSET", pool.cache.keys.settings, "exit_cap", "1")
    pool.acquire("ann", Request(ttl_seconds=60))

    with pytest.raises(PoolEmpty) as refusal:
        pool.acquire("bob", Request(ttl_seconds=60))

    assert refusal.value.problem()["reasons"] == {"candidates": 1, "exit_busy": 1, "leased": 1}


def test_a_thousand_at_once_get_exactly_ten_leases(valkey_url: str) -> None:
    """Input 64, I1: ten proxies; the other 990 requests get different Retry-After values."""
    pool = a_pool(valkey_url, *(a_record(number) for number in range(10)))
    waits: list[int] = []

    def ask(number: int) -> str:
        try:
            return pool.acquire(f"owner-{number % 2}", Request(ttl_seconds=60))[0][0].proxy_id
        except PoolEmpty as error:
            waits.append(error.retry_after_seconds or 0)
            return ""

    with ThreadPoolExecutor(100) as threads:
        got = [proxy for proxy in threads.map(ask, range(1_000)) if proxy]
    pool.cache.close()

    assert len(got) == len(set(got)) == 10
    assert len(waits) == 990
    assert all(1 <= wait <= 30 for wait in waits)
    assert len(set(waits)) > 1


def test_a_backlog_of_overdue_leases_is_not_counted(valkey_url: str, clock: Clock) -> None:
    """I4, input 66: more leases expired than one acquire cleans up; quota and proxies are free nevertheless."""
    pool = a_pool(valkey_url, *(a_record(number) for number in range(60)), owner_quota=60)
    pool.acquire("ann", Request(ttl_seconds=1, count=50))
    pool.acquire("ann", Request(ttl_seconds=1, count=10))
    clock.move(seconds=1)

    assert len(pool.acquire("ann", Request(ttl_seconds=60, count=20, at_least=20))[0]) == 20
    assert len(pool.acquire("bob", Request(ttl_seconds=60, count=40, at_least=40))[0]) == 40


def test_the_best_is_found_although_it_ended_behind_others(valkey_url: str) -> None:
    """I4: more leases have expired than one acquire ends in passing; the choice among all candidates is repeated."""
    with movable_clock():
        others = [a_record(number, https=False, passed=3.0) for number in range(5)]
        fitting = [a_record(number, passed=3.0) for number in (5, 6)]
        best = a_record(7, passed=81.0, protocol=Protocol.SOCKS5)
        pool, now = a_pool(valkey_url, *others, *fitting, best), now_ms()
        set_clock(pool.cache, now)
        pool.acquire("bob", Request(ttl_seconds=2, count=3, at_least=3, https=True))
        pool.acquire("bob", Request(ttl_seconds=1, count=4, at_least=4))
        set_clock(pool.cache, now + 2_000)

        leases, _ = pool.acquire("ann", Request(ttl_seconds=60, https=True, strategy=Strategy.BEST))

    assert [lease.proxy_id for lease in leases] == [best.id]


def test_a_quota_counts_no_expired_lease_behind_those_of_another_owner(valkey_url: str) -> None:
    """I4, input 66: more leases of bob expired before those of ann than one acquire cleans up."""
    with movable_clock():
        pool, now = (
            a_pool(valkey_url, *(a_record(number) for number in range(20)), owner_quota=10),
            now_ms(),
        )
        for owner, ttl in (("bob", 1), ("ann", 2)):
            set_clock(pool.cache, now)
            pool.acquire(owner, Request(ttl_seconds=ttl, count=10))
        set_clock(pool.cache, now + 2_000)

        assert pool.acquire("ann", Request(ttl_seconds=60))


def test_a_missing_lease_record_is_skipped(valkey_url: str, clock: Clock) -> None:
    """I4: unknown ids in `due` are skipped."""
    pool = a_pool(valkey_url, a_record(1), a_record(2))
    lease = pool.acquire("ann", Request(ttl_seconds=1))[0][0]
    pool.cache.command("HDEL", pool.cache.keys.leases, lease.id)
    pool.cache.command("ZADD", f"{pool.cache.keys.tag}:due", 1, "zfrom-another-version")
    clock.move(seconds=1)

    assert pool.acquire("bob", Request(ttl_seconds=60))
    assert pool.cache.command("ZCARD", f"{pool.cache.keys.tag}:due") == 1
