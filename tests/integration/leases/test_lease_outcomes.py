"""What reports change: cool-downs of exit and target, breakers, rate caps. On a real Valkey, with a clock that the test moves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from proxypool.errors import PoolEmpty
from proxypool.leases.ledger import journal
from proxypool.leases.outcome import MAX_COOL_SECONDS, cool_seconds
from proxypool.leases.pool import Lease, Pool, Request
from proxypool.proxies.record import LeaseFacts
from proxypool_client.outcome import Outcome

from tests.support.lease_clock import movable_clock, now_ms, set_clock
from tests.support.leases import a_pool, a_record

SHOP, NEWS = "shop.example", "news.example"


@dataclass
class StoppedPool:
    """A pool whose clock is stopped until `wait`."""

    pool: Pool
    now: int

    def wait(self, ms: int) -> None:
        """Moves the pool's clock on."""
        self.now += ms
        set_clock(self.pool.cache, self.now)

    def take(self, target: str = SHOP, owner: str = "ann", **wanted: Any) -> Lease:
        """One lease; a refusal of a moment ago is forgotten."""
        self.wait(201)
        return self.pool.acquire(owner, Request(ttl_seconds=60, target=target, **wanted))[0][0]

    def use(self, outcome: Outcome, target: str = SHOP, owner: str = "ann", **wanted: Any) -> str:
        """Acquires, reports and releases a lease; returns its proxy."""
        lease = self.take(target, owner, **wanted)
        self.pool.release(owner, lease.id, outcome)
        return lease.proxy_id

    def refused(self, target: str = SHOP, **wanted: Any) -> tuple[dict[str, int], int]:
        """The reasons and Retry-After of a refusal."""
        with pytest.raises(PoolEmpty) as refusal:
            self.take(target, **wanted)
        return dict(refusal.value.problem()["reasons"]), refusal.value.retry_after_seconds or 0


@pytest.fixture
def clock() -> Iterator[None]:
    """Scripts read the time that the test sets."""
    with movable_clock():
        yield


@pytest.fixture
def rig(valkey_url: str, clock: None) -> Iterator[StoppedPool]:
    """Three proxies, one exit each."""
    yield from _rig(valkey_url, 3)


def _rig(url: str, proxies: int, **settings: Any) -> Iterator[StoppedPool]:
    pool = a_pool(url, *(a_record(number, interval_seconds=10**6) for number in range(proxies)), **settings)
    rig = StoppedPool(pool, now_ms())
    rig.wait(0)
    yield rig
    pool.cache.close()


@pytest.mark.parametrize("outcome", [Outcome.BLOCKED, Outcome.CAPTCHA, Outcome.RATE_LIMITED, Outcome.TIMEOUT])
def test_a_ban_cools_the_exit_for_that_target_alone(rig: StoppedPool, outcome: Outcome) -> None:
    """Cases 7 and 26: the same proxy is at once leased for another target, by another owner too."""
    banned = {rig.use(outcome) for _ in range(3)}

    reasons, wait = rig.refused(owner="bob")
    other = rig.take(NEWS, "bob").proxy_id

    assert len(banned) == 3
    assert reasons["cooling"] == 3
    assert 1 <= wait <= 30
    assert other in banned
    rig.wait(cool_seconds(outcome, None) * 1000)
    assert rig.take().proxy_id in banned


def test_retry_after_is_how_long_the_pair_cools(rig: StoppedPool) -> None:
    """Case 26: seven seconds, which the caller gets as Retry-After."""
    for _ in range(3):
        lease = rig.take()
        rig.pool.report("ann", lease.id, Outcome.RATE_LIMITED, retry_after=7)
        rig.pool.release("ann", lease.id)

    _, wait = rig.refused()

    assert 7 <= wait <= 12
    rig.wait(7_000)
    assert rig.take()
    assert cool_seconds(Outcome.RATE_LIMITED, 10**8) == MAX_COOL_SECONDS
    assert cool_seconds(Outcome.RATE_LIMITED, -1) == 0


def test_a_shorter_ban_does_not_end_a_longer_one(rig: StoppedPool) -> None:
    """The later of two instants holds."""
    lease = rig.take()
    rig.pool.report("ann", lease.id, Outcome.BLOCKED)
    rig.pool.report("ann", lease.id, Outcome.RATE_LIMITED, retry_after=1)
    rig.pool.release("ann", lease.id)
    rig.wait(2_000)

    assert (
        rig.refused(exclude=tuple(sorted(a_record(n).id for n in range(3) if a_record(n).id != lease.proxy_id)))[0][
            "cooling"
        ]
        == 1
    )


def test_one_ban_does_not_push_the_others_over_their_cap(valkey_url: str, clock: None) -> None:
    """Case 25, I20: ten a second for each of three exits; with one banned the two others still get ten each; refused callers get a Retry-After."""
    for rig in _rig(valkey_url, 3):
        rig.pool.cache.command("HSET", rig.pool.cache.keys.settings, "rate:*", "100 1")
        rig.use(Outcome.BLOCKED)
        rig.wait(10_000)
        grants: list[str] = []
        waits: list[int] = []

        for _ in range(50):  # a second, and a caller every 20 ms
            rig.wait(20)
            try:
                lease = rig.pool.acquire("ann", Request(ttl_seconds=60, target=SHOP))[0][0]
            except PoolEmpty as error:
                waits.append(error.retry_after_seconds or 0)
                rig.pool.cache.command("DEL", *_memos(rig))
                continue
            grants.append(lease.proxy_id)
            rig.pool.release("ann", lease.id)

        assert all(grants.count(proxy) <= 10 for proxy in set(grants))
        assert len(set(grants)) == 2
        assert len(grants) >= 18
        assert waits
        assert all(1 <= wait <= 6 for wait in waits)


def test_a_burst_is_granted_at_once_and_then_the_rate_holds(rig: StoppedPool) -> None:
    """I20: three at once, then one every ten seconds."""
    rig.pool.cache.command("HSET", rig.pool.cache.keys.settings, f"rate:{SHOP}", "10000 3")
    one: dict[str, Any] = {"exclude": (a_record(1).id, a_record(2).id)}

    for _ in range(3):
        rig.use(Outcome.OK, **one)

    assert rig.refused(**one)[0]["cooling"] == 1
    assert rig.use(Outcome.OK, NEWS, **one)
    rig.wait(9_300)
    assert rig.use(Outcome.OK, **one)


def test_a_proxys_breaker_opens_tries_one_lease_and_closes(valkey_url: str, clock: None) -> None:
    """I20: five failures in a row open it; half-open it admits one probe; a probe that dies frees its slot; ok closes it."""
    for rig in _rig(valkey_url, 1):
        for _ in range(5):
            rig.use(Outcome.PROXY_ERROR, "")
        rig.refused("")

        rig.wait(60_000)
        probe = rig.take("")
        rig.refused("")
        rig.wait(60_000)  # the probe dies
        again = rig.take("", "bob")
        rig.pool.release("bob", again.id, Outcome.PROXY_ERROR)
        rig.refused("")
        rig.wait(60_000)
        rig.use(Outcome.OK, "")

        assert probe.proxy_id == again.proxy_id
        for _ in range(4):
            rig.use(Outcome.PROXY_ERROR, "")
        assert rig.take("")


def test_a_probe_that_is_well_opens_a_gateway_for_others_at_once(valkey_url: str, clock: None) -> None:
    """I20, case 23: the report is sufficient, a release is not needed."""
    pool = a_pool(valkey_url, a_record(1, slots=2, interval_seconds=10**6), breaker_failures=1)
    rig = StoppedPool(pool, now_ms())
    rig.use(Outcome.PROXY_ERROR, "")
    rig.wait(60_000)
    probe = rig.take("")
    rig.refused("")

    pool.report("ann", probe.id, Outcome.OK)

    assert rig.take("").proxy_id == probe.proxy_id
    pool.cache.close()


def test_a_success_in_between_starts_the_count_again(valkey_url: str, clock: None) -> None:
    """Failures count in a row."""
    for rig in _rig(valkey_url, 1):
        for outcome in [Outcome.PROXY_ERROR] * 4 + [Outcome.BLOCKED] + [Outcome.CREDENTIALS] * 4:
            rig.use(outcome, "")

        assert rig.take("")


def test_a_dead_target_does_not_lower_scores(valkey_url: str, clock: None) -> None:
    """Case 29, I20: five proxies time out on one target; its breaker opens, no proxy is blamed, one probe is let through."""
    for rig in _rig(valkey_url, 6):
        failed = {rig.use(Outcome.TIMEOUT) for _ in range(5)}
        reasons, wait = rig.refused()

        assert len(failed) == 5
        assert reasons == {"target_open": 1}
        assert 1 <= wait <= 30
        entries, unreadable = journal.parse_entries(
            rig.pool.cache.command("XRANGE", rig.pool.cache.keys.journal, "-", "+")
        )
        assert unreadable == 0
        for proxy in failed:
            facts = journal.add_evidence(LeaseFacts(), [entry for entry in entries if entry.proxy_id == proxy])
            assert (facts.bad, facts.granted) == (0.0, 1)
        assert all(row.ended == "released" for row in journal.ledger_rows(entries))

        rig.wait(60_000)
        probe = rig.take()
        assert rig.refused()[0] == {"target_open": 1}
        assert rig.refused(count=2, at_least=2)[0] == {"target_open": 1}
        rig.pool.release("ann", probe.id, Outcome.TARGET_ERROR)
        assert rig.refused()[0] == {"target_open": 1}
        rig.wait(60_000)
        rig.take()
        rig.wait(60_000)  # this probe dies unheard
        rig.use(Outcome.OK)
        assert rig.take()


def test_a_proxys_breaker_does_not_count_what_a_dead_target_did(valkey_url: str, clock: None) -> None:
    """I20, case 29: when the target's breaker opens, the failures before are taken back; four more are not five."""
    for rig in _rig(valkey_url, 6):
        suspected, *_ = (rig.use(Outcome.TIMEOUT) for _ in range(5))
        alone: dict[str, Any] = {"exclude": tuple(a_record(n).id for n in range(6) if a_record(n).id != suspected)}

        for _ in range(4):
            rig.use(Outcome.PROXY_ERROR, "", **alone)

        assert rig.take("", **alone).proxy_id == suspected


def test_failures_that_are_far_apart_open_no_breaker_of_a_target(valkey_url: str, clock: None) -> None:
    """I20: five within a minute would."""
    for rig in _rig(valkey_url, 2):
        for _ in range(5):
            rig.wait(60_000)
            rig.use(Outcome.TARGET_ERROR)

        assert rig.take()


def test_a_timeout_while_the_breaker_of_the_target_is_open_is_not_blamed_on_the_proxy(
    valkey_url: str, clock: None
) -> None:
    """Case 29, I20: a lease from before, which found out late; and the target is closed no longer for it."""
    for rig in _rig(valkey_url, 8):
        before = rig.pool.acquire("bob", Request(ttl_seconds=900, target=SHOP))[0][0]
        for _ in range(5):
            rig.use(Outcome.TARGET_ERROR)

        rig.wait(30_000)
        rig.pool.report("bob", before.id, Outcome.TIMEOUT)

        assert rig.pool.cache.command("HGET", f"{rig.pool.cache.keys.tag}:p:{before.proxy_id}", "f") is None
        entries, _ = journal.parse_entries(rig.pool.cache.command("XRANGE", rig.pool.cache.keys.journal, "-", "+"))
        assert journal.add_evidence(LeaseFacts(), [one for one in entries if one.proxy_id == before.proxy_id]).bad == 0
        rig.wait(30_000)
        assert rig.take()


@pytest.mark.parametrize("probed", [False, True], ids=["its time is over", "its probe is over"])
def test_any_answer_closes_a_targets_breaker_that_waits_for_one(valkey_url: str, clock: None, probed: bool) -> None:
    """I20: also to an earlier lease; then all requests are granted."""
    for rig in _rig(valkey_url, 8):
        before = rig.pool.acquire("bob", Request(ttl_seconds=900, target=SHOP))[0][0]
        for _ in range(5):
            rig.use(Outcome.TARGET_ERROR)
        rig.refused()
        rig.wait(60_000)
        if probed:
            rig.take()
            rig.wait(60_000)

        rig.pool.report("bob", before.id, Outcome.OK)

        assert len({rig.take().proxy_id for _ in range(3)}) == 3


def test_one_bad_proxy_does_not_close_a_target(valkey_url: str, clock: None) -> None:
    """A timeout counts once per proxy: five of one are its own fault, and open its own breaker."""
    for rig in _rig(valkey_url, 2):
        one: dict[str, Any] = {"exclude": (a_record(1).id,)}
        for _ in range(5):
            rig.use(Outcome.TIMEOUT, **one)
            rig.wait(30_000)

        assert rig.refused(NEWS, **one)[0]["candidates"] == 1
        assert rig.take().proxy_id == a_record(1).id


def test_a_response_of_the_target_resets_its_failures(valkey_url: str, clock: None) -> None:
    """Even a block is a sign of life."""
    for rig in _rig(valkey_url, 9):
        for outcome in [Outcome.TARGET_ERROR] * 4 + [Outcome.BLOCKED] + [Outcome.SERVER_ERROR] * 4:
            rig.use(outcome)

        assert rig.take()


def forgotten(rig: StoppedPool) -> bool:
    """Whether nothing of the target is left a quarter of an hour later."""
    tag = rig.pool.cache.keys.tag
    for _ in range(15):
        rig.wait(61_000)
        while rig.pool.cache.run("expire", 10)[0]:
            pass
    left = rig.pool.cache.command("EXISTS", f"{tag}:pace:{SHOP}", f"{tag}:fails:{SHOP}")
    return not left and not rig.pool.cache.command("ZCARD", f"{tag}:due")


@pytest.mark.parametrize(("outcome", "numbers"), [(Outcome.TIMEOUT, 2), (Outcome.BLOCKED, 1)])
def test_old_counters_of_a_target_expire(rig: StoppedPool, outcome: Outcome, numbers: int) -> None:
    """Nothing of a target stays behind for ever, however long it was."""
    tag = rig.pool.cache.keys.tag
    rig.use(outcome)
    assert rig.pool.cache.command("EXISTS", f"{tag}:pace:{SHOP}", f"{tag}:fails:{SHOP}") == numbers

    assert forgotten(rig)


def test_old_counters_of_a_rate_expire(rig: StoppedPool) -> None:
    """I20: those that grants alone have left."""
    tag = rig.pool.cache.keys.tag
    rig.pool.cache.command("HSET", rig.pool.cache.keys.settings, "rate:*", "1000 1")
    rig.pool.release("ann", rig.take().id)
    assert rig.pool.cache.command("EXISTS", f"{tag}:pace:{SHOP}") == 1

    assert forgotten(rig)


def _memos(rig: StoppedPool) -> list[str]:
    return list(rig.pool.cache.command("KEYS", f"{rig.pool.cache.keys.tag}:memo:*")) or [
        "none" + rig.pool.cache.keys.tag
    ]
