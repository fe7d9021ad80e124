"""Rate and concurrency limits of domains across workers, on the emulated AWS (I20)."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from uuid import uuid4

import pytest
from proxypool.aws.state import StateTable
from proxypool.jobs.fetch.domains import Domain, Domains
from proxypool.jobs.fetch.gate import SLOT_SECONDS, Gate, RateLimited

from tests.support import servers
from tests.support.clock import Clock


@pytest.fixture(scope="module")
def table(aws_endpoint: str) -> str:
    return servers.create_tables(f"ga{uuid4().hex[:8]}-")["StateTable"]


def a_domain(**rules: float | bool) -> Domain:
    return Domain(name=f"{uuid4().hex[:8]}.example", **rules)  # type: ignore[arg-type]


def test_a_rate_limit_holds_across_workers(table: str) -> None:
    """I20: the turns of twenty requests by four workers are one interval apart; no turn is given twice."""
    domain = a_domain(requests_per_second=20.0, concurrency=0)
    gates = [Gate(table) for _ in range(4)]

    async def all_turns() -> list[int]:
        batches = await asyncio.gather(
            *(asyncio.to_thread(gates[n % 4]._take_turns, domain, 1 + n % 3) for n in range(20))
        )
        return sorted(first + number * 50 for first, taken in batches for number in range(taken))

    turns = asyncio.run(all_turns())

    assert len(turns) == sum(1 + n % 3 for n in range(20))
    assert all(after - before >= 50 for before, after in pairwise(turns))


def test_a_concurrency_limit_holds_across_workers(table: str) -> None:
    """I20: never more than two concurrent requests."""
    domain = a_domain(requests_per_second=1_000.0, concurrency=2)
    active, peak, both = 0, 0, asyncio.Barrier(2)

    async def visit() -> None:
        nonlocal active, peak
        slot = await Gate(table).enter(domain)
        active += 1
        peak = max(peak, active)
        await both.wait()  # returns only if two are active
        active -= 1
        await Gate(table).leave(domain, slot)

    async def all_visits() -> None:
        await asyncio.gather(*(visit() for _ in range(4)))

    asyncio.run(all_visits())

    assert peak == 2


def test_the_slot_of_a_crashed_worker_expires(table: str, clock: Clock) -> None:
    domain = a_domain(requests_per_second=1_000.0, concurrency=1)
    assert asyncio.run(Gate(table).enter(domain)) == "place_0"
    clock.move(seconds=SLOT_SECONDS + 0.001)

    assert asyncio.run(Gate(table).enter(domain)) == "place_0"


def test_a_turn_that_is_too_late_is_not_taken(table: str) -> None:
    """The error has the waiting time; the next turn is unchanged."""
    domain = a_domain(requests_per_second=0.01, concurrency=0)
    asyncio.run(Gate(table).enter(domain))
    next_ms = Gate(table)._next_ms(domain)

    with pytest.raises(RateLimited) as later:
        asyncio.run(Gate(table).enter(domain))

    assert 90 < later.value.seconds <= 100
    assert Gate(table)._next_ms(domain) == next_ms


def test_the_operator_allows_and_forbids_domains(table: str) -> None:
    domains = Domains(StateTable(table))
    assert domains.find("www.shop.example") is None

    domains.put("shop.example", {"requests_per_second": 5, "robots": False, "reason": "we have a contract"})

    domain = domains.find("www.shop.example")
    assert domain is not None
    assert (domain.requests_per_second, domain.robots, domain.concurrency) == (5.0, False, 2)
    assert domains.remove("shop.example")
    assert not domains.remove("shop.example")
    assert domains.find("www.shop.example") is None
