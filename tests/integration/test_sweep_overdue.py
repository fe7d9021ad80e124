"""What a sweep could not send is overdue: the figure that tells a person that checking falls behind."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

import pytest
from proxypool import aws, clock
from proxypool.checks.sweep import Sweep
from proxypool.proxies.proxy import Kind
from proxypool.proxies.table import ProxyTable
from proxypool.settings import Settings
from proxypool.state import State

from tests.support.builders import NOW, a_proxy
from tests.support.servers import create_tables

LATER = NOW + timedelta(hours=2)


@pytest.fixture
def sweep(aws_endpoint: str) -> Sweep:
    """Five proxies that are due."""
    aws.client.cache_clear()
    name = f"so{uuid.uuid4().hex[:8]}"
    tables = create_tables(name)
    queue = aws.client("sqs").create_queue(QueueName=name)["QueueUrl"]
    proxies = ProxyTable(tables["ProxiesTable"])
    proxies.upsert_many(
        [a_proxy(number) for number in range(1, 6)], source_id="a", kind=Kind.UNKNOWN, tags=frozenset(), now=NOW
    )
    return Sweep(proxies, State(tables["StateTable"]), Settings(validate_queue_url=queue, sweep_page=2))


def counts(sweep: Sweep, most: int) -> dict[str, int]:
    limited = replace(sweep, settings=replace(sweep.settings, sweep_max_proxies=most))
    return limited.sweep(now=LATER, run_id="r", seconds_left=lambda: 60)


def test_what_a_sweep_may_not_send_is_overdue(sweep: Sweep) -> None:
    assert counts(sweep, 2) == {"count": 2, "overdue": 3, "backlog": 0}


def test_a_sweep_that_is_held_back_by_a_full_queue_tells_what_is_due(sweep: Sweep) -> None:
    counts(sweep, 2)

    assert counts(sweep, 2) == {"count": 0, "overdue": 3, "backlog": 2}


def test_a_sweep_that_sends_all_leaves_nothing_overdue(sweep: Sweep) -> None:
    assert counts(sweep, 100) == {"count": 5, "overdue": 0, "backlog": 0}


def test_two_sweeps_that_overlap_ask_twice_and_each_proxy_is_claimed_once(sweep: Sweep) -> None:
    """Input 84: a slow sweep and the next one send the same messages; the claim decides."""
    with ThreadPoolExecutor(2) as both:
        sent = [run["count"] for run in both.map(lambda most: counts(sweep, most), (100, 100))]
    due = {record.id: clock.epoch(record.next_check_at or NOW) for record in sweep.proxies.scan()}

    claims = [sweep.proxies.claim_many(due, now=LATER, claim_seconds=150) for _ in range(2)]

    assert sum(sent) >= len(due)
    assert [len(claim) for claim in claims] == [len(due), 0]
