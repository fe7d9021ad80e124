"""The engine against a plain model, in any order of events: a Hypothesis state machine on a real Valkey in cluster mode."""

from __future__ import annotations

import random
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from proxypool.errors import IdempotencyConflict, NotFound, PoolEmpty, QuotaExceeded
from proxypool.leases.index.ready import Index
from proxypool.leases.pool import Lease, Pool, Request
from proxypool.proxies.proxy import Status
from proxypool_client.outcome import Outcome

from tests.support.lease_clock import movable_clock, now_ms, set_clock
from tests.support.lease_model import Model
from tests.support.leases import a_pool, a_record, keys_of

OWNERS = st.sampled_from(["ann", "bob"])
TARGETS = st.sampled_from(["", "shop.example", "shop.example"])
SESSIONS = st.sampled_from(["", "", "", "s"])
PROXIES, QUOTA = 5, 6
WHICH = st.integers(0, 30)  # an index into the leases of the moment


class Leases(RuleBasedStateMachine):
    """Every answer of the engine must be one that the model allows; the model then follows it."""

    url = ""
    draw = random.Random()

    @classmethod
    def base_id(cls, size: int) -> str:
        """What decides each choice of the scripts: the same in each run of one example."""
        return cls.draw.randbytes(size).hex()

    @initialize(exit_cap=st.sampled_from([0, 0, 1]), rate=st.booleans())
    def start(self, exit_cap: int, rate: bool) -> None:
        self.draw.seed(0)
        self.pool: Pool = a_pool(self.url, owner_quota=QUOTA, breaker_failures=2)
        self.index = Index(self.pool.cache, 3600)
        self.model = Model(now=now_ms(), quota=QUOTA, exit_cap=exit_cap, failures=2)
        self.fences: dict[str, tuple[int, ...]] = {}
        self.ended: list[tuple[str, str]] = []
        self.keyed: dict[tuple[str, str], tuple[Request, list[str]]] = {}
        self.version = 1
        self._set("exit_cap", exit_cap)
        if rate:
            self.model.gaps["shop.example"] = (5_000, 1)
            self._set("rate:shop.example", "5000 1")
        for number in range(PROXIES):
            self._index(number, Status.ACTIVE)

    @rule(owner=OWNERS, site=TARGETS, session=SESSIONS, count=st.sampled_from([1, 1, 3]), ttl=st.sampled_from([1, 30]))
    def acquire(self, owner: str, site: str, session: str, count: int, ttl: int) -> None:
        """As many as the model has, and such as it would grant."""
        self._forget_refusals()
        request = Request(ttl_seconds=ttl, count=1 if session else count, target=site, session_id=session)
        expected = self._expected(owner, request)
        pinned = self.model.session_answer(owner, request) if session else ""
        mine = sum(lease.owner == owner for lease in self.model.leases.values())
        try:
            leases, _ = self.pool.acquire(owner, request)
        except QuotaExceeded:
            assert mine >= QUOTA
            return
        except PoolEmpty:
            assert expected == 0, self.model
            return
        assert len(leases) == expected, self.model
        free = {one for proxies in self.model.free_now(request).values() for one, _ in proxies}
        for lease in leases:
            assert lease.proxy_id == pinned if pinned else lease.proxy_id in free
            self._granted(owner, request, lease)
        self._fenced(leases)

    @rule(owner=OWNERS, key=st.sampled_from(["k1", "k2"]), ttl=st.sampled_from([1, 30]))
    def acquire_with_a_key(self, owner: str, key: str, ttl: int) -> None:
        """I2: sent twice, granted once; another body is a conflict; an ended lease is not found."""
        self._forget_refusals()
        request, known = Request(ttl_seconds=ttl), self.keyed.get((owner, key))
        try:
            leases, repeated = self.pool.acquire(owner, request, key=key)
        except IdempotencyConflict:
            assert known is not None
            assert known[0] != request
            return
        except NotFound:
            assert known is not None
            assert not set(known[1]) & set(self.model.leases)
            return
        except (PoolEmpty, QuotaExceeded):
            assert known is None
            assert self._expected(owner, request) == 0
            return
        assert repeated == (known is not None)
        if known is None:
            self.keyed[owner, key] = request, [lease.id for lease in leases]
            for lease in leases:
                self._granted(owner, request, lease)
            self._fenced(leases)
        else:
            assert {lease.id for lease in leases} == set(known[1]) & set(self.model.leases)

    @rule(which=WHICH, owner=OWNERS, ttl=st.sampled_from([1, 60, 900]))
    def renew(self, which: int, owner: str, ttl: int) -> None:
        """I3, I5."""
        lease_id, live = self._one(which, owner)
        try:
            lease = self.pool.renew(owner, lease_id, ttl)
        except NotFound:
            assert not live
            return
        assert live
        self.model.renew(lease_id, ttl)
        assert round(lease.expires_at.timestamp() * 1000) == self.model.leases[lease_id].expires

    @rule(which=WHICH, owner=OWNERS, outcome=st.sampled_from([None, *Outcome]))
    def release(self, which: int, owner: str, outcome: Outcome | None) -> None:
        """I3: twice, late or by another it changes nothing."""
        lease_id, live = self._one(which, owner)
        try:
            self.pool.release(owner, lease_id, outcome)
        except NotFound:
            assert not live
            return
        assert live
        if outcome:
            self.model.report(lease_id, outcome)
        self._end(lease_id)

    @rule(which=WHICH, owner=OWNERS, outcome=st.sampled_from(list(Outcome)))
    def report(self, which: int, owner: str, outcome: Outcome) -> None:
        lease_id, live = self._one(which, owner)
        try:
            self.pool.report(owner, lease_id, outcome)
        except NotFound:
            assert not live
            return
        assert live
        self.model.report(lease_id, outcome)

    @rule(ms=st.sampled_from([1, 999, 1_000, 29_000, 61_000, 700_000]))
    def tick(self, ms: int) -> None:
        self._tick(ms)

    @rule(ms=st.sampled_from([1_000, 300_000]))
    def clock_jumps_back(self, ms: int) -> None:
        """Input 79: what the expiry run has ended stays ended. (It forgets old numbers when it comes to them: here at once.)"""
        self.expire()
        tag = self.pool.cache.keys.tag
        self.pool.cache.command("ZREMRANGEBYSCORE", f"{tag}:pace:shop.example", "-inf", self.model.now)
        self.model.pace = {pair: at for pair, at in self.model.pace.items() if at > self.model.now}
        self.pool.cache.command("DEL", f"{tag}:fails:shop.example")
        for breaker in self.model.targets.values():
            breaker.fails.clear()
        self._tick(-ms)

    @rule()
    def expire(self) -> None:
        """The job of every minute; nothing depends on it."""
        while self.pool.cache.run("expire", 2)[0]:
            pass

    @rule(
        number=st.integers(0, PROXIES - 1),
        status=st.sampled_from([Status.ACTIVE, Status.ACTIVE, Status.DEAD]),
        late=st.booleans(),
    )
    def change(self, number: int, status: Status, late: bool) -> None:
        """A record of the table's stream; `late`: a repeated old one."""
        self._index(number, status, version=1 if late else None)

    @rule(number=st.integers(0, PROXIES - 1))
    def remove(self, number: int) -> None:
        record = a_record(number, status=Status.DEAD, version=self.version + 1)
        self.version += 1
        self.index.remove([(record.id, record.version - 1)])
        self.model.index(record)

    @rule()
    def restart(self) -> None:
        """Drops the scripts, all connections, and all keys that may be evicted."""
        self.pool.cache.command("SCRIPT", "FLUSH")
        self.pool.cache.close()
        for key in keys_of(self.pool.cache):
            if self.pool.cache.command("PTTL", key) != -1:
                self.pool.cache.command("DEL", key)

    @invariant()
    def nobody_holds_more_than_may_be_held(self) -> None:
        """I1, I6, and both owners see exactly their live leases."""
        if not hasattr(self, "pool"):
            return
        for owner in ("ann", "bob"):
            seen = {lease.id for lease in self.pool.list_leases(owner)}
            assert seen == {one for one, lease in self.model.leases.items() if lease.owner == owner}
        for proxy_id, record in self.model.records.items():
            assert self.model.holders(proxy_id) <= record.slots or self.model.versions[proxy_id] > 1

    def teardown(self) -> None:
        if hasattr(self, "pool"):
            self.pool.cache.close()

    def _expected(self, owner: str, request: Request) -> int:
        """How many leases the model would grant."""
        mine = sum(lease.owner == owner for lease in self.model.leases.values())
        breaker = self.model.targets.get(request.target)
        most = min(request.count, QUOTA - mine)
        if request.target and breaker and breaker.state:
            if breaker.state == "o" or breaker.probe:
                return 0
            most = min(most, 1)
        if request.session_id and (pinned := self.model.session_answer(owner, request)):
            return 0 if pinned in ("busy", "cooling") else min(most, 1)
        return max(0, min(most, self.model.max_leases(request)))

    def _granted(self, owner: str, request: Request, lease: Lease) -> None:
        self.model.grant(lease.id, owner, lease.proxy_id, request)

    def _fenced(self, leases: list[Lease]) -> None:
        """I6: greater than that of every earlier grant of the proxy (slots of one request share it)."""
        fences = {lease.proxy_id: tuple(map(int, lease.fence.split("-"))) for lease in leases}
        assert all(fence > self.fences.get(proxy_id, (0, 0)) for proxy_id, fence in fences.items())
        self.fences |= fences

    def _one(self, which: int, owner: str) -> tuple[str, bool]:
        """A lease of any owner, active, ended or unknown; and True if it is an active one of this owner."""
        ids = [*self.model.leases, *(one for one, _ in self.ended[-3:]), "0" * 32 + ".1"]
        lease_id = ids[which % len(ids)]
        return lease_id, lease_id in self.model.leases and self.model.leases[lease_id].owner == owner

    def _end(self, lease_id: str) -> None:
        self.ended.append((lease_id, self.model.leases[lease_id].owner))
        self.model.end(lease_id)

    def _forget_refusals(self) -> None:
        """A refusal is remembered for 200 ms of two clocks: time passes, and the cached refusal may be evicted at any time."""
        self._tick(250)
        for key in self.pool.cache.command("KEYS", f"{self.pool.cache.keys.tag}:memo:*"):
            self.pool.cache.command("DEL", key)

    def _tick(self, ms: int) -> None:
        before = dict(self.model.leases)
        self.model.tick(ms)
        self.ended += [(one, lease.owner) for one, lease in before.items() if one not in self.model.leases]
        set_clock(self.pool.cache, self.model.now)

    def _index(self, number: int, status: Status, *, version: int | None = None) -> None:
        if version is None:
            self.version += 1
        record = a_record(
            number, status=status, version=version or self.version, exit_ip=f"127.1.0.{number % 3}", interval_seconds=10**6,
            slots=3 if number == 4 else 1,
        )  # fmt: skip
        self.index.upsert([record])
        self.model.index(record)

    def _set(self, name: str, value: Any) -> None:
        self.pool.cache.command("HSET", self.pool.cache.keys.settings, name, value)


@pytest.mark.timeout(300)  # a thousand steps, each run twice
def test_the_engine_agrees_with_a_plain_model(valkey_url: str) -> None:
    """I1–I7, I20, inputs 59, 60, 66, 77, 79 and 81, cases 19, 20 and 22: acquire, renew, release, report, tick, crash
    (a lease that is not released), evict, restart, duplicate, clock skew, index, remove, in any order."""
    Leases.url = valkey_url
    with movable_clock(), mock.patch("proxypool.leases.pool.secrets.token_hex", Leases.base_id):
        run_state_machine_as_test(
            Leases,
            settings=settings(
                max_examples=25, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
            ),
        )
