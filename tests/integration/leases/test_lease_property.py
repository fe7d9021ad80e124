"""acquire against brute force: pools of many kinds, requests that compose, each rule deciding often."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

from proxypool.errors import PoolEmpty
from proxypool.leases.pool import Pool, Request, Strategy
from proxypool.proxies.proxy import Status

from tests.support.lease_clock import movable_clock, now_ms, set_clock
from tests.support.lease_filters import EXAMPLES
from tests.support.lease_model import Model
from tests.support.leases import a_pool, a_record, proxy_id

TARGETS = ["", "shop.example", "shop.example", "news.example"]
FACTS: dict[str, Sequence[Any]] = {
    "status": [Status.ACTIVE] * 5 + [Status.DEAD],
    "slots": [1, 1, 1, 1, 3],
    **{fact: values for example in EXAMPLES for fact, values in example.facts.items()},
}
WISHES: list[dict[str, Any]] = [
    {},
    *({example.name: example.wanted} for example in EXAMPLES),
    {"distinct_exit": True},
    {"exclude": (proxy_id(0), proxy_id(1), proxy_id(2))},
]
RULES = {*(example.name for example in EXAMPLES), "exclude", "cooling", "exit_cap"}
POOLS, REQUESTS, OFTEN = 40, 12, 10


def a_request(draw: random.Random) -> Request:
    """Seven of ten have at most one filter, so that each filter decides alone often enough."""
    count = draw.choice([1, 1, 2, 5, 50])
    wanted: dict[str, Any] = {"strategy": draw.choice(list(Strategy)), "target": draw.choice(TARGETS)}
    for _ in range(draw.choice([0, 0, 1, 1, 1, 1, 1, 2, 3, 3])):
        wanted |= draw.choice(WISHES)
    return Request(ttl_seconds=60, count=count, at_least=draw.randint(1, min(count, 3)), **wanted)


def acquire(pool: Pool, model: Model, request: Request) -> list[str]:
    """One acquire: as many as brute force finds, each one that fits, none more often than it has slots."""
    set_clock(pool.cache, model.now)
    most, free = model.max_leases(request), model.free_now(request)
    expected = min(request.count, most) if most >= request.at_least else 0
    room = {proxy_id: slots for proxies in free.values() for proxy_id, slots in proxies}
    try:
        leases, _ = pool.acquire("ann", request)
    except PoolEmpty:
        leases = []
    assert len(leases) == expected, (request, free)
    assert all(number <= room.get(one, 0) for one, number in Counter(lease.proxy_id for lease in leases).items())
    for lease in leases:
        model.grant(lease.id, "ann", lease.proxy_id, request)
    return [lease.id for lease in leases]


def play(url: str, seed: int) -> Counter[str]:
    """One pool and its requests; how often each rule alone took a proxy out."""
    draw = random.Random(seed)
    facts = [{name: draw.choice(values) for name, values in FACTS.items()} for _ in range(draw.randint(1, 16))]
    records = [a_record(number, **one) for number, one in enumerate(facts)]
    pool, model = a_pool(url, *records, owner_quota=10_000), Model(now=now_ms())
    for record in records:
        model.index(record)
    model.exit_cap = draw.choice([0, 0, 1, 2])
    if model.exit_cap:
        pool.cache.command("HSET", pool.cache.keys.settings, "exit_cap", model.exit_cap)
    if draw.random() < 0.5:
        model.gaps["shop.example"] = (2_000, 2)
        pool.cache.command("HSET", pool.cache.keys.settings, "rate:shop.example", "2000 2")
    for _ in range(REQUESTS):
        leases = acquire(pool, model, a_request(draw))
        for lease_id in leases if draw.random() < 0.6 else ():
            pool.release("ann", lease_id)
            model.end(lease_id)
        model.tick(250)
    pool.cache.close()
    return model.decided


def test_acquire_grants_what_brute_force_would(valkey_url: str) -> None:
    """I1, I7, I20, input 65: as many as fit and are free, never others, and a refusal only where none is.

    A rule that never decides alone is not tested: each must have done so often.
    """
    decided: Counter[str] = Counter()
    with movable_clock():
        for seed in range(POOLS):
            decided += play(valkey_url, seed)

    assert {rule for rule in RULES if decided[rule] >= OFTEN} == RULES, decided
