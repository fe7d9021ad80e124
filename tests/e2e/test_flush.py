"""The cache loses everything while workers lease from a real stack: what they hold, when they lease again, what the ledger says."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import pytest
import redis
from proxypool.config.overrides import Value, parse
from proxypool.config.settings import OVERRIDES, ROWS, overrides

from tests.support.stack import LocalStack, until

pytestmark = [pytest.mark.xdist_group("stack"), pytest.mark.timeout(300)]

LEASE_SECONDS = 2
CLOSED_SECONDS = 3  # how long a strict pool stays closed: longer than any lease here
WORKERS = 4
RULES: dict[str, dict[str, Value]] = {
    "availability": {},  # a local stack's own
    "strict": {"cache_loss": "strict", "max_lease_seconds": CLOSED_SECONDS},
}


@dataclass
class Held:
    """One lease as its holder knows it, by one clock: certainly held from the answer on, until it gave it up."""

    id: str
    proxy_id: str
    asked_at: float
    since: float
    until: float


@dataclass
class Load:
    """Workers of two owners that acquire, renew, release and forget leases until they are stopped."""

    stack: LocalStack
    owners: tuple[str, ...]
    stopped: threading.Event = field(default_factory=threading.Event)
    held: list[Held] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)

    def work(self, number: int) -> None:
        """One worker."""
        chance, owner = random.Random(number), self.owners[number % len(self.owners)]
        while not self.stopped.is_set():
            if held := self.take(owner):
                self.stopped.wait(chance.uniform(0, LEASE_SECONDS / 2))
                self.go_on(held, owner, chance.choice(("release", "renew", "forget")))
            else:
                self.stopped.wait(0.1)

    def take(self, owner: str) -> Held | None:
        """A lease, or None where the pool has none."""
        asked_at = time.monotonic()
        status, answer = self.stack.call("POST", "/leases", {"ttl_seconds": LEASE_SECONDS}, x_proxypool_owner=owner)
        if status != 201:
            self.refused[answer["type"]] += 1
            return None
        held = Held(answer["id"], answer["proxy_id"], asked_at, time.monotonic(), asked_at + LEASE_SECONDS)
        self.held.append(held)
        return held

    def go_on(self, held: Held, owner: str, what: str) -> None:
        """Gives the lease back, keeps it longer, or forgets it."""
        asked_at = time.monotonic()
        if what == "release":
            held.until = min(held.until, asked_at)
            self.stack.call("POST", f"/leases/{held.id}/release", {"outcome": "ok"}, x_proxypool_owner=owner)
        elif what == "renew":
            body = {"ttl_seconds": LEASE_SECONDS}
            status, answer = self.stack.call("POST", f"/leases/{held.id}/renew", body, x_proxypool_owner=owner)
            if status == 200:  # both count from the grant
                held.until = held.asked_at + answer["ttl_seconds"]


@contextmanager
def working(stack: LocalStack, *owners: str) -> Iterator[Load]:
    """Load for a block; at its end all workers are heard."""
    load = Load(stack, owners)
    with ThreadPoolExecutor(WORKERS) as threads:
        running = [threads.submit(load.work, number) for number in range(WORKERS)]
        try:
            yield load
        finally:
            load.stopped.set()
    for worker in running:
        worker.result()


@contextmanager
def told(stack: LocalStack, **settings: Value) -> Iterator[None]:
    """Within the block expire_leases has other settings, where there are any."""
    if not settings:
        yield
        return
    name, functions = stack.at.outputs["ExpireLeasesFunction"], stack.clients("lambda")
    before = functions.get_function_configuration(FunctionName=name)["Environment"]
    values, _ = parse(before["Variables"][OVERRIDES], ROWS)
    functions.update_function_configuration(
        FunctionName=name, Environment={"Variables": before["Variables"] | {OVERRIDES: overrides(**values | settings)}}
    )
    try:
        yield
    finally:
        functions.update_function_configuration(FunctionName=name, Environment=before)


def run_for(stack: LocalStack, seconds: float) -> None:
    """The schedule of expire_leases, half a second for its minute."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        stack.invoke("ExpireLeases")
        time.sleep(0.5)


def lose_the_cache(stack: LocalStack) -> float:
    """Flushes everything; returns when."""
    with redis.Redis.from_url(stack.at.redis_url) as cache:
        cache.flushall()
    return time.monotonic()


def shared(held: list[Held]) -> list[tuple[Held, Held]]:
    """Each two leases, the earlier first, that certainly held one proxy at one time."""
    pairs = combinations(sorted(held, key=lambda one: one.since), 2)
    return [(a, b) for a, b in pairs if a.proxy_id == b.proxy_id and b.since < min(a.until, b.until)]


def ledger(stack: LocalStack, *owners: str) -> dict[str, dict[str, str]]:
    """These owners' rows, by lease."""
    pages = stack.clients("dynamodb").get_paginator("scan").paginate(TableName=stack.at.outputs["LeasesTable"])
    rows = [
        {name: next(iter(value.values())) for name, value in item.items()} for page in pages for item in page["Items"]
    ]
    return {row["lease_id"]: row for row in rows if row["owner"] in owners}


def age(stack: LocalStack, row: dict[str, str], seconds: int) -> None:
    """Makes an open row overdue since long, by its own clock."""
    stack.clients("dynamodb").update_item(
        TableName=stack.at.outputs["LeasesTable"], Key={"lease_id": {"S": row["lease_id"]}},
        UpdateExpression="SET expires_at = :then",
        ExpressionAttributeValues={":then": {"N": str(int(row["expires_at"]) - seconds)}},
    )  # fmt: skip


def exits(stack: LocalStack) -> set[str]:
    """Where all proxies that can be leased now lead; they are given back."""
    found: dict[str, Any] = stack.call("POST", "/leases", {"count": 50, "ttl_seconds": 5})[1]
    for lease in found.get("leases", []):
        stack.call("DELETE", f"/leases/{lease['id']}")
    return {lease["exit_ip"] for lease in found.get("leases", [])}


@pytest.mark.parametrize("rule", RULES)
def test_a_cache_that_is_flushed_under_load_comes_back_and_no_lease_outlives_its_bound(
    stack: LocalStack, rule: str
) -> None:
    """I1, I4, I23, input 78: at most a lease of before beside one of after, and no longer than it had left; strict: none at all.

    The pool fills itself again and leases to both owners; every lease that the ledger knows is closed in it.
    """
    owners = (f"ann-{rule}", f"bob-{rule}")
    before = until(lambda: exits(stack))
    with told(stack, **RULES[rule]), working(stack, *owners) as load:
        run_for(stack, 1)
        known = until(lambda: load.take(owners[0]))
        until(lambda: stack.invoke("ExpireLeases") and known.id in ledger(stack, *owners))
        lost_at = lose_the_cache(stack)
        until(lambda: load.refused["rebuilding"])
        until(lambda: stack.invoke("ExpireLeases") and any(one.asked_at > lost_at for one in load.held))
        run_for(stack, 1)

    after = [one for one in load.held if one.asked_at > lost_at]
    assert load.refused.keys() <= {"rebuilding", "pool_empty"}
    for old, new in shared(load.held):
        assert rule == "availability"
        assert old.asked_at < lost_at < new.since
        assert old.until <= lost_at + LEASE_SECONDS
    if rule == "strict":
        assert min(one.since for one in after) > lost_at + LEASE_SECONDS
    until(lambda: exits(stack) == before)

    stack.invoke("ExpireLeases")
    rows = ledger(stack, *owners)
    assert {one.id for one in after} | {known.id} <= rows.keys()
    for row in rows.values():
        if "ended" not in row:
            age(stack, row, 90)
    stack.invoke("ExpireLeases")

    rows = ledger(stack, *owners)
    assert {row["owner"] for row in rows.values()} == set(owners)
    assert not [row for row in rows.values() if "ended" not in row or "open_shard" in row]
    assert rows[known.id]["ended"] == "lost"
    assert {rows[one.id]["ended"] for one in after} == {"released", "expired"}
