"""A flush of the cache of a local stack under load: overlaps of leases, the time until new ones, and the ledger."""

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
from proxypool.config.settings import OVERRIDES, SETTING_SPECS, overrides

from tests.support.stack import LocalStack, wait_until

pytestmark = [pytest.mark.xdist_group("stack"), pytest.mark.timeout(300)]

LEASE_SECONDS = 2
CLOSED_SECONDS = 3  # how long a pool stays closed with cache_loss=strict: longer than any lease here
WORKERS = 4
RULES: dict[str, dict[str, Value]] = {
    "availability": {},  # the default of a local stack
    "strict": {"cache_loss": "strict", "max_lease_seconds": CLOSED_SECONDS},
}


@dataclass
class HeldLease:
    """One lease by the clock of its holder: certainly held from `since` (the response) to `until`."""

    id: str
    proxy_id: str
    requested_at: float
    since: float
    until: float


@dataclass
class Load:
    """Workers of two owners that acquire, renew, release and abandon leases until they are stopped."""

    stack: LocalStack
    owners: tuple[str, ...]
    stopped: threading.Event = field(default_factory=threading.Event)
    held: list[HeldLease] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)

    def work(self, number: int) -> None:
        """Runs one worker."""
        chance, owner = random.Random(number), self.owners[number % len(self.owners)]
        while not self.stopped.is_set():
            if held := self.acquire(owner):
                self.stopped.wait(chance.uniform(0, LEASE_SECONDS / 2))
                self.finish(held, owner, chance.choice(("release", "renew", "abandon")))
            else:
                self.stopped.wait(0.1)

    def acquire(self, owner: str) -> HeldLease | None:
        """A lease, or None if the request is refused."""
        requested_at = time.monotonic()
        status, answer = self.stack.call("POST", "/leases", {"ttl_seconds": LEASE_SECONDS}, x_proxypool_owner=owner)
        if status != 201:
            self.refused[answer["type"]] += 1
            return None
        now = time.monotonic()
        held = HeldLease(answer["id"], answer["proxy_id"], requested_at, now, requested_at + LEASE_SECONDS)
        self.held.append(held)
        return held

    def finish(self, held: HeldLease, owner: str, action: str) -> None:
        """Releases, renews or abandons the lease."""
        requested_at = time.monotonic()
        if action == "release":
            held.until = min(held.until, requested_at)
            self.stack.call("POST", f"/leases/{held.id}/release", {"outcome": "ok"}, x_proxypool_owner=owner)
        elif action == "renew":
            body = {"ttl_seconds": LEASE_SECONDS}
            status, answer = self.stack.call("POST", f"/leases/{held.id}/renew", body, x_proxypool_owner=owner)
            if status == 200:  # ttl_seconds counts from the grant
                held.until = held.requested_at + answer["ttl_seconds"]


@contextmanager
def working(stack: LocalStack, *owners: str) -> Iterator[Load]:
    """Load while the block runs; raises the errors of the workers at its end."""
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
def changed_settings(stack: LocalStack, **settings: Value) -> Iterator[None]:
    """Changes settings of expire_leases while the block runs."""
    if not settings:
        yield
        return
    name, functions = stack.running.outputs["ExpireLeasesFunction"], stack.clients("lambda")
    before = functions.get_function_configuration(FunctionName=name)["Environment"]
    values, _ = parse(before["Variables"][OVERRIDES], SETTING_SPECS)
    functions.update_function_configuration(
        FunctionName=name, Environment={"Variables": before["Variables"] | {OVERRIDES: overrides(**values | settings)}}
    )
    try:
        yield
    finally:
        functions.update_function_configuration(FunctionName=name, Environment=before)


def run_for(stack: LocalStack, seconds: float) -> None:
    """Runs expire_leases every half second, in place of its schedule."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        stack.invoke("ExpireLeases")
        time.sleep(0.5)


def flush_cache(stack: LocalStack) -> float:
    """Flushes the cache; returns the time (monotonic)."""
    with redis.Redis.from_url(stack.running.redis_url) as cache:
        cache.flushall()
    return time.monotonic()


def overlapping(held: list[HeldLease]) -> list[tuple[HeldLease, HeldLease]]:
    """The pairs of leases, the earlier first, that certainly held the same proxy at the same time."""
    pairs = combinations(sorted(held, key=lambda one: one.since), 2)
    return [(a, b) for a, b in pairs if a.proxy_id == b.proxy_id and b.since < min(a.until, b.until)]


def ledger(stack: LocalStack, *owners: str) -> dict[str, dict[str, str]]:
    """The rows of these owners, by lease."""
    pages = stack.clients("dynamodb").get_paginator("scan").paginate(TableName=stack.running.outputs["LeasesTable"])
    rows = [
        {name: next(iter(value.values())) for name, value in item.items()} for page in pages for item in page["Items"]
    ]
    return {row["lease_id"]: row for row in rows if row["owner"] in owners}


def backdate(stack: LocalStack, row: dict[str, str], seconds: int) -> None:
    """Sets the expiry of an open row back, so that it is overdue."""
    stack.clients("dynamodb").update_item(
        TableName=stack.running.outputs["LeasesTable"], Key={"lease_id": {"S": row["lease_id"]}},
        UpdateExpression="SET expires_at = :then",
        ExpressionAttributeValues={":then": {"N": str(int(row["expires_at"]) - seconds)}},
    )  # fmt: skip


def exits(stack: LocalStack) -> set[str]:
    """The exit IPs of all free proxies, leased and released."""
    answer: dict[str, Any] = stack.call("POST", "/leases", {"count": 50, "ttl_seconds": 5})[1]
    for lease in answer.get("leases", []):
        stack.call("DELETE", f"/leases/{lease['id']}")
    return {lease["exit_ip"] for lease in answer.get("leases", [])}


@pytest.mark.parametrize("rule", RULES)
def test_a_cache_that_is_flushed_under_load_is_rebuilt_and_overlaps_of_leases_are_bounded(
    stack: LocalStack, rule: str
) -> None:
    """I1, I4, I23, input 78: an old lease can overlap with one new lease, until it expires; with `strict`, with none.

    The index is rebuilt and both owners lease again; every lease in the ledger is closed.
    """
    owners = (f"ann-{rule}", f"bob-{rule}")
    before = wait_until(lambda: exits(stack))
    with changed_settings(stack, **RULES[rule]), working(stack, *owners) as load:
        run_for(stack, 1)
        recorded = wait_until(lambda: load.acquire(owners[0]))
        wait_until(lambda: stack.invoke("ExpireLeases") and recorded.id in ledger(stack, *owners))
        lost_at = flush_cache(stack)
        wait_until(lambda: load.refused["rebuilding"])

        def endings() -> set[str]:
            rows = ledger(stack, *owners)
            after = [rows.get(one.id, {}) for one in list(load.held) if one.requested_at > lost_at]
            return {row["ended"] for row in after if "ended" in row}

        wait_until(lambda: stack.invoke("ExpireLeases") and {"released", "expired"} <= endings())

    after = [one for one in load.held if one.requested_at > lost_at]
    assert load.refused.keys() <= {"rebuilding", "pool_empty"}
    for old, new in overlapping(load.held):
        assert rule == "availability"
        assert old.requested_at < lost_at < new.since
        assert old.until <= lost_at + LEASE_SECONDS
    if rule == "strict":
        assert min(one.since for one in after) > lost_at + LEASE_SECONDS
    wait_until(lambda: exits(stack) == before)

    stack.invoke("ExpireLeases")
    rows = ledger(stack, *owners)
    assert {one.id for one in after} | {recorded.id} <= rows.keys()
    for row in rows.values():
        if "ended" not in row:
            backdate(stack, row, 90)
    stack.invoke("ExpireLeases")

    rows = ledger(stack, *owners)
    assert {row["owner"] for row in rows.values()} == set(owners)
    assert not [row for row in rows.values() if "ended" not in row or "open_shard" in row]
    assert rows[recorded.id]["ended"] == "lost"
    assert {rows[one.id]["ended"] for one in after} == {"released", "expired"}
