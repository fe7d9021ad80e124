"""Pins of sessions and slots of gateways in acquire, on Valkey."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from proxypool.errors import PoolEmpty, QuotaExceeded
from proxypool.http.fields import to_json
from proxypool.leases.index.ready import Index
from proxypool.leases.pool import PIN_SECONDS, PIN_TOTAL_SECONDS, Lease, Pool, Request
from proxypool.proxies.proxy import Status
from proxypool_client.outcome import Outcome

from tests.support.clock import Clock
from tests.support.lease_clock import movable_clock, now_ms, set_clock
from tests.support.leases import a_pool, a_record


def take(pool: Pool, owner: str = "ann", session: str = "s", **wanted: Any) -> Lease:
    """One lease of a session."""
    return pool.acquire(owner, Request(ttl_seconds=60, session_id=session, **wanted))[0][0]


def test_all_leases_of_a_session_are_on_one_proxy_and_one_holder(valkey_url: str) -> None:
    """Case 22, I1: twenty at once; the holder ends with the last of them."""
    pool = a_pool(valkey_url, *(a_record(number) for number in range(5)))

    with ThreadPoolExecutor(16) as threads:
        leases = list(threads.map(lambda _: take(pool), range(20)))

    assert len({lease.proxy_id for lease in leases}) == 1
    assert len({lease.id for lease in leases}) == len({lease.fence for lease in leases}) == 20
    for lease in leases[:-1]:
        pool.release("ann", lease.id)
    with pytest.raises(PoolEmpty):
        _take_all_of(pool, 5)
    pool.release("ann", leases[-1].id)
    assert len(_take_all_of(pool, 5)) == 5


def test_each_lease_of_a_session_counts_for_its_owner(valkey_url: str) -> None:
    """Input 66: one holder, but as many leases."""
    pool = a_pool(valkey_url, a_record(1), owner_quota=2)
    take(pool)
    take(pool)

    with pytest.raises(QuotaExceeded):
        take(pool)


def test_two_owners_sessions_of_one_name_are_two(valkey_url: str) -> None:
    """I15, input 68."""
    pool = a_pool(valkey_url, a_record(1), a_record(2))

    assert take(pool, "ann").proxy_id != take(pool, "bob").proxy_id
    with pytest.raises(PoolEmpty):
        take(pool, "ann", "other")


def test_a_session_waits_for_a_proxy_that_another_holds(valkey_url: str) -> None:
    """It stays where it is: 409 with the reason, although other proxies are free."""
    pool = a_pool(valkey_url, a_record(1), a_record(2))
    pinned = take(pool)
    pool.release("ann", pinned.id)
    other = pool.acquire("bob", Request(ttl_seconds=60, exclude=tuple(_others(pinned))))[0][0]

    with pytest.raises(PoolEmpty) as refusal:
        take(pool)
    pool.release("bob", other.id)

    assert refusal.value.problem()["reasons"] == {"session_busy": 1}
    assert take(pool).proxy_id == pinned.proxy_id


@pytest.mark.parametrize("loss", ["dead", "retired", "removed", "breaker", "cooling"])
def test_a_session_moves_once_when_its_proxy_cannot_be_leased_any_more(valkey_url: str, loss: str) -> None:
    """Case 22: as a whole, with `moved`; its leases on the old proxy remain valid."""
    pool = a_pool(valkey_url, *(a_record(number) for number in range(3)), breaker_failures=1)
    first = take(pool, target="shop.example")
    index, record = Index(pool.cache, 3600), next(a_record(n) for n in range(3) if a_record(n).id == first.proxy_id)
    number = int(record.proxy.host.rpartition(".")[2])
    if loss == "breaker":
        pool.report("ann", first.id, Outcome.CREDENTIALS)
    elif loss == "cooling":
        pool.report("ann", first.id, Outcome.BLOCKED)
    elif loss == "removed":
        index.remove([(record.id, 1)])
    else:
        index.upsert([a_record(number, status=Status(loss), version=2)])

    leases = [take(pool, target="shop.example") for _ in range(3)]

    assert {lease.proxy_id for lease in leases} == {leases[0].proxy_id} != {first.proxy_id}
    assert [lease.moved for lease in (first, *leases)] == [False, True, False, False]
    assert to_json(leases[0])["moved"] is True
    assert first.id in {lease.id for lease in pool.list_leases("ann")}


def test_a_session_gets_a_retry_after_if_its_exit_is_over_the_targets_rate(valkey_url: str, clock: Clock) -> None:
    """I20: a rate is no ban: it waits, and does not move."""
    clock.stop()
    pool = a_pool(valkey_url, a_record(1), a_record(2))
    pool.cache.command("HSET", pool.cache.keys.settings, "rate:*", "9000 1")
    first = take(pool, target="shop.example")

    with pytest.raises(PoolEmpty) as refusal:
        take(pool, target="shop.example")

    assert refusal.value.problem()["reasons"] == {"cooling": 1}
    assert 9 <= (refusal.value.retry_after_seconds or 0) <= 14
    assert take(pool, target="news.example").proxy_id == first.proxy_id


def test_a_pin_slides_and_ends(valkey_url: str) -> None:
    """An hour after its last use, a day after its first."""
    with movable_clock():
        pool, now = a_pool(valkey_url, a_record(1, interval_seconds=10**6)), now_ms()
        pins = f"{pool.cache.keys.tag}:pins"

        def at(seconds: int) -> None:
            set_clock(pool.cache, now + seconds * 1000)
            pool.cache.run("expire", 100)

        at(0)
        pool.release("ann", take(pool).id)
        at(PIN_SECONDS - 1)
        pool.release("ann", take(pool).id)
        at(2 * PIN_SECONDS - 2)
        assert pool.cache.command("HLEN", pins) == 1
        at(2 * PIN_SECONDS - 1)
        assert pool.cache.command("HLEN", pins) == 0
        pool.release("ann", take(pool).id)
        since = 2 * PIN_SECONDS - 1
        for at_seconds in range(since, since + PIN_TOTAL_SECONDS - 60, PIN_SECONDS - 60):
            at(at_seconds)
            pool.release("ann", take(pool).id)
        at(since + PIN_TOTAL_SECONDS)
        assert pool.cache.command("HLEN", pins) == 0


def test_a_gateway_has_slots_and_each_session_its_own_name(valkey_url: str) -> None:
    """Case 23: one row, two sessions with three leases each: two user names; others get different ones."""
    pool = a_pool(valkey_url, a_record(1, slots=4, username="u-sess-{session}"))

    names = {name: {take(pool, session=name).proxy_url for _ in range(3)} for name in ("s1", "s2")}
    single = pool.acquire("ann", Request(ttl_seconds=60, count=5))[0]
    bob = [lease.proxy_url for lease in single]

    assert [len(urls) for urls in names.values()] == [1, 1]
    assert names["s1"] != names["s2"]
    assert len(set(bob)) == len(single) == 2
    assert not any("session" in url for url in (*names["s1"], *bob))
    with pytest.raises(PoolEmpty):
        take(pool, "bob", "s1")


def test_a_gateways_exit_is_not_banned_for_all_of_its_sessions(valkey_url: str) -> None:
    """Its exits change from session to session: a block of one does not affect the next."""
    pool = a_pool(valkey_url, a_record(1, slots=2, username="u-{session}"))
    lease = take(pool, session="s1", target="shop.example")
    pool.release("ann", lease.id, Outcome.BLOCKED)

    assert take(pool, session="s2", target="shop.example")


@pytest.mark.parametrize("outcome", [Outcome.BLOCKED, Outcome.CAPTCHA])
@pytest.mark.parametrize("ends", [True, False])
def test_a_session_that_its_gateway_bans_moves_to_another_name_once(
    valkey_url: str, clock: Clock, outcome: Outcome, ends: bool
) -> None:
    """Cases 22 and 23, I15: reported by one of its leases or several; its next leases share the new name, the old ones keep the old name.

    Sessions of another owner or with another id do not change.
    """
    pool = a_pool(valkey_url, a_record(1, slots=4, username="u-sess-{session}"))
    first, second = take(pool), take(pool, target="shop.example")
    bob, other = take(pool, "bob"), take(pool, session="other")
    tell = pool.release if ends else pool.report
    clock.move(seconds=0.001)  # a name is made of the millisecond in which it was given

    tell("ann", second.id, outcome)
    moved = [take(pool) for _ in range(2)]
    tell("ann", first.id, outcome)  # of the old name: the session has left it already

    again = take(pool)
    assert url(first) == url(second)
    assert [lease.moved for lease in (first, second, *moved, again)] == [False, False, True, False, False]
    assert url(moved[0]) == url(moved[1]) == url(again) != url(first)
    assert {lease.session_id for lease in (*moved, again)} == {"s"}
    assert (url(take(pool, "bob")), url(take(pool, session="other"))) == (url(bob), url(other))
    shown = {lease.id: url(lease) for lease in pool.list_leases("ann")}
    assert ({first.id, second.id} <= shown.keys()) is not ends
    assert all(shown.get(lease.id, url(lease)) == url(lease) for lease in (first, second, *moved, again, other))


def test_a_banned_session_gets_another_name_where_only_one_may_hold_the_gateway(valkey_url: str, clock: Clock) -> None:
    """Case 23: after it has released the proxy; the next lease of another owner has a different name, too."""
    pool = a_pool(valkey_url, a_record(1, username="u-sess-{session}"))
    first = take(pool)
    pool.release("ann", first.id, Outcome.CAPTCHA)
    clock.move(seconds=0.001)  # a name is made of the millisecond in which it was given

    moved = take(pool)
    pool.release("ann", moved.id)

    assert (moved.moved, url(moved) == url(first)) == (True, False)
    assert url(take(pool, "bob")) not in (url(first), url(moved))


@pytest.mark.parametrize("jump_ms", [0, -5_000], ids=["within one millisecond", "after the clock went back"])
def test_each_move_of_a_session_gives_it_another_name(valkey_url: str, jump_ms: int) -> None:
    """Case 23, I15: the name is derived from the instant of the move, and instants may repeat."""
    pool = a_pool(valkey_url, a_record(1, slots=8, username="u-sess-{session}"))
    now = now_ms()
    with movable_clock():
        set_clock(pool.cache, now)
        leases = [take(pool)]
        for _ in range(3):
            set_clock(pool.cache, now := now + jump_ms)
            pool.report("ann", leases[-1].id, Outcome.BLOCKED)
            leases.append(take(pool))
        same = take(pool)

    assert [lease.moved for lease in leases] == [False, True, True, True]
    assert len({url(lease) for lease in leases}) == len(leases)
    assert (url(same), same.moved) == (url(leases[-1]), False)


@pytest.mark.parametrize("outcome", [one for one in Outcome if one not in (Outcome.BLOCKED, Outcome.CAPTCHA)])
def test_a_session_keeps_its_name_at_a_gateway_whatever_else_it_finds(valkey_url: str, outcome: Outcome) -> None:
    """Case 23: only a ban is the exit's."""
    pool = a_pool(valkey_url, a_record(1, slots=4, username="u-sess-{session}"))
    first = take(pool, target="shop.example")

    pool.report("ann", first.id, outcome)

    second = take(pool)
    assert (url(second), second.moved) == (url(first), False)


def test_a_session_of_a_gateway_that_gives_no_names_stays(valkey_url: str) -> None:
    """Its exits change without a session name."""
    pool = a_pool(valkey_url, a_record(1, slots=4), a_record(2, slots=4))
    first = take(pool)

    pool.report("ann", first.id, Outcome.BLOCKED)

    second = take(pool)
    assert (second.proxy_id, second.moved) == (first.proxy_id, False)


def url(lease: Lease) -> str:
    """The proxy with the session's name."""
    return lease.proxy_url


def _others(lease: Lease) -> list[str]:
    return sorted(a_record(n).id for n in range(10) if a_record(n).id != lease.proxy_id)


def _take_all_of(pool: Pool, number: int) -> list[Lease]:
    time.sleep(0.21)  # a refusal is remembered for 200 ms
    return pool.acquire("bob", Request(ttl_seconds=60, count=number, at_least=number))[0]
