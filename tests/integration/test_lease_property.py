"""acquire against brute force: pools of many kinds, requests that compose, each rule deciding often."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from proxypool.errors import PoolEmpty
from proxypool.leases.pool import Pool, Request, Strategy
from proxypool.proxies.proxy import Anonymity, Kind, Protocol, Status

from tests.support.lease_clock import movable, now_ms, set_clock
from tests.support.lease_model import Model
from tests.support.leases import a_pool, a_record, proxy_id

TARGETS = ["", "shop.example", "shop.example", "news.example"]
FACTS: dict[str, list[Any]] = {
    "country": ["de", "us", None],
    "region": ["by", "ca", None],
    "anonymity": list(Anonymity),
    "https": [True, False],
    "latency_ms": [50.0, 500.0],
    "passed": [1.0, 50.0],
    "status": [Status.ACTIVE] * 5 + [Status.DEAD],
    "kind": [Kind.RESIDENTIAL, Kind.MOBILE],
    "tags": [frozenset(), frozenset({"a"}), frozenset({"a", "b"})],
    "sources": [frozenset({"s1"}), frozenset({"s1", "s2"})],
    "exit_ip": ["127.1.0.1", "127.1.0.2", "127.1.0.3", "2001:db8::1", None],
    "slots": [1, 1, 1, 1, 3],
    "protocol": [Protocol.HTTP, Protocol.HTTP, Protocol.SOCKS5],
}
FILTERS: list[dict[str, Any]] = [
    {},
    {"country": "de"},
    {"region": "by"},
    {"anonymity": Anonymity.ANONYMOUS},
    {"https": True},
    {"max_latency_ms": 100},
    {"min_score": 0.5},
    {"kind": Kind.MOBILE},
    {"tags": ("a", "b")},
    {"source": "s2"},
    {"ipv4_only": True},
    {"distinct_exit": True},
    {"protocol": Protocol.HTTP},
    {"exclude": (proxy_id(0), proxy_id(1), proxy_id(2))},
]
RULES = {"protocol", "country", "region", "anonymity", "https", "kind", "latency", "score", "ipv4_only", "tags", "source",
         "exclude", "cooling", "exit_cap"}  # fmt: skip
POOLS, REQUESTS, OFTEN = 40, 12, 10


def a_request(draw: random.Random) -> Request:
    """Seven of ten have one filter at most, so that each decides by itself."""
    count = draw.choice([1, 1, 2, 5, 50])
    wanted: dict[str, Any] = {"strategy": draw.choice(list(Strategy)), "target": draw.choice(TARGETS)}
    for _ in range(draw.choice([0, 0, 1, 1, 1, 1, 1, 2, 3, 3])):
        wanted |= draw.choice(FILTERS)
    return Request(ttl_seconds=60, count=count, at_least=draw.randint(1, min(count, 3)), **wanted)


def acquire(pool: Pool, model: Model, request: Request) -> list[str]:
    """One acquire: as many as brute force finds, each one that fits, none more often than it has slots."""
    set_clock(pool.cache, model.now)
    most, free = model.most(request), model.free_now(request)
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
    with movable():
        for seed in range(POOLS):
            decided += play(valkey_url, seed)

    assert {rule for rule in RULES if decided[rule] >= OFTEN} == RULES, decided
