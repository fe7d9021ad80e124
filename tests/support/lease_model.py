"""A model of the lease engine: a second implementation of every rule, without Redis, eager where the scripts are lazy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from proxypool.leases.index.ready import is_ready
from proxypool.leases.outcome import OUTCOME_EFFECTS, ProxyResult, TargetResult
from proxypool.leases.pool import PIN_SECONDS, Request
from proxypool.proxies.record import FRESH_INTERVALS, ProxyRecord
from proxypool_client.outcome import Outcome

from tests.support.lease_filters import EXAMPLES

MAX_AGE_MS = 3_600_000
WINDOW_MS = 60_000


@dataclass(slots=True)
class LiveLease:
    """A live lease."""

    owner: str
    proxy: str
    exit: str
    target: str
    session: str
    granted: int
    expires: int


@dataclass(slots=True)
class Breaker:
    """The breaker of a proxy: consecutive failures; state "" closed, "o" open until `until`, "h" half-open."""

    failures: int = 0
    state: str = ""
    until: int = 0


@dataclass(slots=True)
class TargetBreaker:
    """The breaker of a target: its failures with their times, its state, and the lease of its probe."""

    fails: dict[str, tuple[int, bool]] = field(default_factory=dict)
    state: str = ""
    until: int = 0
    probe: str = ""


@dataclass(slots=True)
class Model:
    """What acquire may grant, and the effects. `decided` counts for each rule how often it alone excluded a proxy."""

    quota: int = 100
    exit_cap: int = 0
    gaps: dict[str, tuple[int, int]] = field(default_factory=dict)  # target → gap ms, burst
    failures: int = 5
    open_ms: int = 60_000
    total_ms: int = 3_600_000
    now: int = 0
    records: dict[str, ProxyRecord] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    leases: dict[str, LiveLease] = field(default_factory=dict)
    breakers: dict[str, Breaker] = field(default_factory=dict)
    targets: dict[str, TargetBreaker] = field(default_factory=dict)
    pace: dict[tuple[str, str], int] = field(default_factory=dict)
    pins: dict[tuple[str, str], tuple[str, int]] = field(default_factory=dict)  # owner, session → proxy, until
    decided: Counter[str] = field(default_factory=Counter)

    def index(self, record: ProxyRecord) -> None:
        """A change of the proxies table; an older version is ignored."""
        if record.version > self.versions.get(record.id, 0):
            self.versions[record.id] = record.version
            self.records[record.id] = record
            self._forget(record.id)

    def tick(self, ms: int) -> None:
        """Advances the time, or (negative) sets the server's clock back; ended leases stay ended."""
        self.now += ms
        for lease_id in [one for one, lease in self.leases.items() if lease.expires <= self.now]:
            self.end(lease_id)
        both: list[Breaker | TargetBreaker] = [*self.breakers.values(), *self.targets.values()]
        for breaker in both:
            if breaker.state == "o" and breaker.until <= self.now:
                breaker.state = "h"
        self.pins = {pin: (proxy, until) for pin, (proxy, until) in self.pins.items() if until > self.now}

    def free_now(self, request: Request) -> dict[str, list[tuple[str, int]]]:
        """exit → (proxy, free slots) of all proxies that the rules allow; a gateway is listed under its own id."""
        out: dict[str, list[tuple[str, int]]] = {}
        for proxy_id, record in self.records.items():
            room = self._room(record)
            if room > 0 and not any(self._against(record, request)):
                out.setdefault(_exit(record) or proxy_id, []).append((proxy_id, room))
        return out

    def max_leases(self, request: Request) -> int:
        """The maximum number of leases for the request, apart from its count and the quota."""
        once, total = request.distinct_exit or self._gap(request.target)[0] > 0, 0
        for exit_ip, proxies in self.free_now(request).items():
            slots = sum(room for _, room in proxies)
            if once:
                slots = 1
            elif self.exit_cap and exit_ip not in self.records:
                slots = min(slots, self.exit_cap - self._exits()[exit_ip])
            total += slots
        return total

    def grant(self, lease_id: str, owner: str, proxy_id: str, request: Request) -> None:
        """The effects of a grant; the owner's session is pinned."""
        exit_ip = _exit(self.records[proxy_id])
        self.leases[lease_id] = LiveLease(
            owner,
            proxy_id,
            exit_ip,
            request.target,
            request.session_id,
            self.now,
            self.now + request.ttl_seconds * 1000,
        )
        gap, _ = self._gap(request.target)
        if gap and exit_ip:
            self.pace[request.target, exit_ip] = max(self.pace.get((request.target, exit_ip), 0), self.now) + gap
        if request.session_id:
            self.pins[owner, request.session_id] = (proxy_id, self.now + PIN_SECONDS * 1000)
        breaker = self.targets.get(request.target)
        if breaker and breaker.state == "h":
            breaker.probe = lease_id

    def renew(self, lease_id: str, ttl_seconds: int) -> None:
        """Extends a lease: never shortens it, never beyond the total, never by less than a second."""
        lease = self.leases[lease_id]
        ends = min(self.now + ttl_seconds * 1000, lease.granted + self.total_ms)
        if ends >= lease.expires + 1_000:
            lease.expires = ends

    def report(self, lease_id: str, outcome: Outcome) -> None:
        """The effects of an outcome on the pair of exit and target, the proxy and the target."""
        lease, means = self.leases[lease_id], OUTCOME_EFFECTS[outcome]
        excused = bool(lease.target) and self._judge_target(lease_id, lease, means.proxy, means.target)
        if means.cool_seconds and lease.target and lease.exit:
            pair = lease.target, lease.exit
            self.pace[pair] = max(self.pace.get(pair, 0), self.now + means.cool_seconds * 1000)
        if means.proxy is ProxyResult.CARRIED:
            self.breakers.pop(lease.proxy, None)
        elif means.proxy is ProxyResult.FAILED and not excused:
            breaker = self.breakers.setdefault(lease.proxy, Breaker())
            breaker.failures += 1
            if breaker.failures >= self.failures or breaker.state == "h":
                breaker.state, breaker.until = "o", self.now + self.open_ms

    def end(self, lease_id: str) -> None:
        """Ends a lease; the slot of a probe is free again."""
        lease = self.leases.pop(lease_id)
        breaker = self.targets.get(lease.target)
        if breaker and breaker.probe == lease_id:
            breaker.probe = ""
        self._forget(lease.proxy)

    def session_answer(self, owner: str, request: Request) -> str:
        """The pinned proxy's id, "busy", "cooling", or "" if the session may move to another proxy."""
        proxy_id, _ = self.pins.get((owner, request.session_id), ("", 0))
        record = self.records.get(proxy_id)
        if record is None or not self._is_available(record):
            return ""
        number, (gap, burst) = self.pace.get((request.target, _exit(record)), 0), self._gap(request.target)
        if number > self.now + burst * gap:
            return ""
        if number - (burst - 1) * gap > self.now:
            return "cooling"
        joined = any(
            (lease.owner, lease.session, lease.proxy) == (owner, request.session_id, proxy_id)
            for lease in self.leases.values()
        )
        return proxy_id if joined or self._room(record) > 0 else "busy"

    def holders(self, proxy_id: str) -> int:
        """The number of holders: all leases of a session are one."""
        found = [(one, lease) for one, lease in self.leases.items() if lease.proxy == proxy_id]
        return len({(lease.owner, lease.session) if lease.session else one for one, lease in found})

    def _judge_target(self, lease_id: str, lease: LiveLease, proxy: ProxyResult, target: TargetResult) -> bool:
        breaker = self.targets.setdefault(lease.target, TargetBreaker())
        if target is TargetResult.ANSWERED:
            breaker.fails.clear()
            if breaker.state == "h" and breaker.probe in ("", lease_id):
                breaker.state, breaker.probe = "", ""
        elif target is TargetResult.FAILED:
            if breaker.state:
                if breaker.state == "h" and breaker.probe == lease_id:
                    breaker.state, breaker.until, breaker.probe = "o", self.now + self.open_ms, ""
                return True
            blamed = proxy is ProxyResult.FAILED
            breaker.fails = {one: at for one, at in breaker.fails.items() if at[0] + WINDOW_MS > self.now}
            breaker.fails[lease.proxy if blamed else lease_id] = (self.now, blamed)
            if len(breaker.fails) >= self.failures:
                for one, (_, suspected) in breaker.fails.items():
                    if suspected and not (blamed and one == lease.proxy) and one in self.breakers:
                        self.breakers[one].failures = max(0, self.breakers[one].failures - 1)
                breaker.fails, breaker.state, breaker.until = {}, "o", self.now + self.open_ms
                return True
        return False

    def _is_available(self, record: ProxyRecord) -> bool:
        """True if the proxy is in the index, fresh, and its breaker is not open."""
        breaker = self.breakers.get(record.id, Breaker())
        return is_ready(record) and self.now < self._fresh_until(record) and breaker.state != "o"

    def _room(self, record: ProxyRecord) -> int:
        half_open = self.breakers.get(record.id, Breaker()).state == "h"
        return (1 if half_open else record.slots) - self.holders(record.id) if self._is_available(record) else 0

    def _fresh_until(self, record: ProxyRecord) -> int:
        assert record.last_checked_at is not None
        age = max(MAX_AGE_MS, FRESH_INTERVALS * record.check.interval_seconds * 1000)
        return round(record.last_checked_at.timestamp() * 1000) + age

    def _against(self, record: ProxyRecord, request: Request) -> Iterator[bool]:
        exit_ip = _exit(record)
        _, slack = self._gap(request.target)[0], (self._gap(request.target)[1] - 1) * self._gap(request.target)[0]
        rules = {
            **{one.name: one.excludes(record, request) for one in EXAMPLES},
            "exclude": record.id in request.exclude,
            "cooling": bool(exit_ip) and self.pace.get((request.target, exit_ip), 0) - slack > self.now,
            "exit_cap": bool(self.exit_cap and exit_ip) and self._exits()[exit_ip] >= self.exit_cap,
        }
        against = [name for name, holds in rules.items() if holds]
        if len(against) == 1:
            self.decided[against[0]] += 1  # it alone excluded this proxy
        yield from map(bool, against)

    def _exits(self) -> Counter[str]:
        seen = {
            (lease.exit, (lease.owner, lease.session, lease.proxy) if lease.session else one)
            for one, lease in self.leases.items()
        }
        return Counter(exit_ip for exit_ip, _ in seen if exit_ip)

    def _gap(self, target: str) -> tuple[int, int]:
        return self.gaps.get(target, self.gaps.get("*", (0, 1))) if target else (0, 1)

    def _forget(self, proxy_id: str) -> None:
        """Deletes the state of a proxy that is not in the index and has no holder."""
        record = self.records.get(proxy_id)
        if (record is None or not is_ready(record)) and not self.holders(proxy_id):
            self.breakers.pop(proxy_id, None)


def _exit(record: ProxyRecord) -> str:
    return "" if record.slots > 1 else record.check.exit_ip or record.id
