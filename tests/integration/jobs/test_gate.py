"""The gates of domains on the emulated AWS: rates and widths hold across workers (I20)."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from uuid import uuid4

import pytest
from proxypool.aws.state import StateTable
from proxypool.jobs.fetch.domains import Domain, Domains
from proxypool.jobs.fetch.gate import PLACE_SECONDS, Gate, RateLimited

from tests.support import servers
from tests.support.clock import Clock


@pytest.fixture(scope="module")
def table(aws_endpoint: str) -> str:
    return servers.create_tables(f"ga{uuid4().hex[:8]}-")["StateTable"]


def a_domain(**rules: float | bool) -> Domain:
    return Domain(name=f"{uuid4().hex[:8]}.example", **rules)  # type: ignore[arg-type]


def test_a_rate_holds_across_workers(table: str) -> None:
    """I20: twenty requests of four workers stand in line, one interval apart; no turn is given twice."""
    domain = a_domain(requests_per_second=20.0, concurrency=0)
    gates = [Gate(table) for _ in range(4)]

    async def all_turns() -> list[int]:
        took = await asyncio.gather(*(asyncio.to_thread(gates[n % 4]._turns, domain, 1 + n % 3) for n in range(20)))
        return sorted(first + number * 50 for first, taken in took for number in range(taken))

    turns = asyncio.run(all_turns())

    assert len(turns) == sum(1 + n % 3 for n in range(20))
    assert all(after - before >= 50 for before, after in pairwise(turns))


def test_a_width_holds_across_workers(table: str) -> None:
    """I20: never more than two at once, however many ask."""
    domain = a_domain(requests_per_second=1_000.0, concurrency=2)
    inside, most, both = 0, 0, asyncio.Barrier(2)

    async def visit() -> None:
        nonlocal inside, most
        place = await Gate(table).enter(domain)
        inside += 1
        most = max(most, inside)
        await both.wait()  # ends only if two may be inside at once
        inside -= 1
        await Gate(table).leave(domain, place)

    async def all_visits() -> None:
        await asyncio.gather(*(visit() for _ in range(4)))

    asyncio.run(all_visits())

    assert most == 2


def test_a_place_of_a_worker_that_died_comes_back(table: str, clock: Clock) -> None:
    domain = a_domain(requests_per_second=1_000.0, concurrency=1)
    assert asyncio.run(Gate(table).enter(domain)) == "place_0"
    clock.move(seconds=PLACE_SECONDS + 0.001)

    assert asyncio.run(Gate(table).enter(domain)) == "place_0"


def test_a_turn_too_far_away_is_not_taken(table: str) -> None:
    """The caller learns when; nobody's later turn moves."""
    domain = a_domain(requests_per_second=0.01, concurrency=0)
    asyncio.run(Gate(table).enter(domain))
    taken = Gate(table)._next_ms(domain)

    with pytest.raises(RateLimited) as later:
        asyncio.run(Gate(table).enter(domain))

    assert 90 < later.value.seconds <= 100
    assert Gate(table)._next_ms(domain) == taken


def test_the_operator_allows_and_forbids_domains(table: str) -> None:
    domains = Domains(StateTable(table))
    assert domains.of("www.shop.example") is None

    domains.put("shop.example", {"requests_per_second": 5, "robots": False, "reason": "we have a contract"})

    found = domains.of("www.shop.example")
    assert found is not None
    assert (found.requests_per_second, found.robots, found.concurrency) == (5.0, False, 2)
    assert domains.remove("shop.example")
    assert not domains.remove("shop.example")
    assert domains.of("www.shop.example") is None
