"""Sixteen clients with an unreliable connection to Redis: their observations and the journal fulfill every promise."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from proxypool import clock
from proxypool.errors import NotFound, PoolEmpty, Unavailable
from proxypool.leases.ledger import journal
from proxypool.leases.ledger.journal import JournalEntry
from proxypool.leases.pool import Lease, Pool, Request
from proxypool.leases.redis.cache import Cache

from tests.support.faults import Fault, faulty_connection
from tests.support.lease_history import Call, CallResult, ObservedLease, Op, violations
from tests.support.leases import a_pool, a_record, proxy_id

CLIENTS, REQUESTS = 16, 10
CAPS = {proxy_id(number): 1 for number in range(6)} | {proxy_id(6): 2}
TOTAL_SECONDS = 2
PAUSE_SECONDS = 0.1  # of who was refused
REPEATS = 4  # of a request whose response was lost


def ms(instant: float) -> int:
    """Whole milliseconds, as the server counts them."""
    return int(instant * 1000)


def shown(lease: Lease) -> ObservedLease:
    """A lease in the history."""
    granted, expires = (round(at.timestamp() * 1000) for at in (lease.granted_at, lease.expires_at))
    return ObservedLease(
        lease_id=lease.id, proxy_id=lease.proxy_id, fence=lease.fence, granted=granted, expires=expires
    )


@dataclass
class Client:
    """One client with separate connections; `calls` are its observations."""

    number: int
    pool: Pool
    others: list[ObservedLease]  # leases of all clients, for attempts by other owners
    calls: list[Call] = field(default_factory=list)

    def work(self) -> list[Call]:
        """Acquires leases and uses them as clients do."""
        draw = random.Random(self.number)
        for number in range(REQUESTS):
            for lease in self.acquire(f"r{self.number}-{number}.example", draw):
                self.others.append(lease)
                self.use(lease, draw)
            somebodys = draw.choice(self.others or [_NONE]).lease_id
            self.renew(somebodys, 1) if draw.random() < 0.5 else self.release(somebodys)
        self.pool.cache.close()
        return self.calls

    def acquire(self, mark: str, draw: random.Random) -> tuple[ObservedLease, ...]:
        """Half of the requests have a key, and are retried until they get a response."""
        key = draw.choice([mark, ""])
        request = Request(ttl_seconds=draw.choice([1, 2] if key else [1, 2, 4]), target=mark)
        for _ in range(REPEATS if key else 1):
            call = self.call(Op.ACQUIRE, lambda: self.pool.acquire(self.owner, request, key=key)[0], mark=mark)
            if call.result is not CallResult.UNKNOWN:
                break
        if call.result is CallResult.FAIL:
            time.sleep(PAUSE_SECONDS)
        return call.shown

    def use(self, lease: ObservedLease, draw: random.Random) -> None:
        """Holds the lease, may renew it, releases it (sometimes twice), or lets it expire."""
        for _ in range(draw.choice([0, 0, 1, 2])):
            self.renew(lease.lease_id, draw.choice([1, 2, 900]))
        self.call(Op.READ, lambda: self.pool.list_leases(self.owner))
        if draw.random() < 0.1:
            time.sleep(max(0, lease.expires / 1000 + 0.05 - clock.now().timestamp()))
        for _ in range(draw.choice([0, 1, 1, 1, 2])):
            self.release(lease.lease_id)

    def renew(self, lease_id: str, ttl_seconds: int) -> None:
        """A renewal, of one's own lease or another's, over or not."""
        self.call(Op.RENEW, lambda: [self.pool.renew(self.owner, lease_id, ttl_seconds)], lease_id=lease_id)

    def release(self, lease_id: str) -> None:
        """Releases a lease."""
        self.call(Op.RELEASE, lambda: self.pool.release(self.owner, lease_id), lease_id=lease_id)

    @property
    def owner(self) -> str:
        """Eight clients of each."""
        return ("ann", "bob")[self.number % 2]

    def call(self, op: Op, ask: Callable[[], Sequence[Lease] | None], *, mark: str = "", lease_id: str = "") -> Call:
        """One call, written down."""
        started, found, result = clock.now().timestamp(), None, CallResult.OK
        try:
            found = ask()
        except (PoolEmpty, NotFound) as refusal:
            result = CallResult.FAIL
            if op is Op.ACQUIRE and isinstance(refusal, NotFound):
                result = CallResult.UNKNOWN  # the lease of the retried request has ended: it was granted
        except Unavailable:
            result = CallResult.UNKNOWN
        call = Call(
            op=op, owner=self.owner, started=ms(started), ended=ms(clock.now().timestamp()) + 1, result=result, mark=mark,
            lease_id=lease_id, shown=tuple(map(shown, found or ())),
        )  # fmt: skip
        self.calls.append(call)
        return call


_NONE = ObservedLease(lease_id="0" * 32 + ".1", proxy_id="", fence="0-0", granted=0, expires=0)


def told_journal(pool: Pool) -> list[JournalEntry]:
    """Everything that took effect, in its order."""
    entries, unreadable = journal.parse_entries(pool.cache.command("XRANGE", pool.cache.keys.journal, "-", "+"))
    assert not unreadable
    return entries


def know_the_scripts(url: str) -> None:
    """Sends each once: from now on commands are short, and answered in one piece."""
    pool = a_pool(url, a_record())
    (lease,), _ = pool.acquire("ann", Request(ttl_seconds=1))
    pool.renew("ann", lease.id, 1)
    assert pool.list_leases("ann")
    pool.release("ann", lease.id)
    pool.cache.close()


def test_sixteen_clients_with_faults_find_every_promise_fulfilled(valkey_url: str) -> None:
    """I1–I6, input 77: answers lost, late, cut off or dripping, resets, half-open connections, commands that come late."""
    pool = a_pool(
        valkey_url, *(a_record(number, slots=2 if number == 6 else 1) for number in range(7)),
        owner_quota=10_000, max_lease_total_seconds=TOTAL_SECONDS,
    )  # fmt: skip
    know_the_scripts(valkey_url)
    others: list[ObservedLease] = []
    with faulty_connection(valkey_url) as (url, happened), ThreadPoolExecutor(CLIENTS) as threads:
        clients = [
            Client(number, replace(pool, cache=Cache(url, pool.cache.keys)), others) for number in range(CLIENTS)
        ]
        calls = [call for some in threads.map(Client.work, clients) for call in some]
    entries = told_journal(pool)

    assert violations(calls, entries, caps=CAPS, total_ms=TOTAL_SECONDS * 1000) == []
    assert set(happened) == set(Fault)
    assert {(op, result) for op in Op for result in CallResult} - {(call.op, call.result) for call in calls} == {
        (Op.READ, CallResult.FAIL)
    }
    time.sleep(max(0, max(entry.expires_ms for entry in entries) / 1000 - clock.now().timestamp()))
    leases, _ = pool.acquire("eve", Request(ttl_seconds=60, count=50))
    assert Counter(lease.proxy_id for lease in leases) == CAPS
