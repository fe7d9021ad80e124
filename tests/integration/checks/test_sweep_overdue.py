"""Due proxies that a sweep did not send are reported as overdue: the figure shows that checking falls behind."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

import pytest
from proxypool import aws, clock
from proxypool.aws.state import StateTable
from proxypool.checks.sweep import Sweep
from proxypool.config.settings import Settings
from proxypool.proxies.proxy import Kind
from proxypool.proxies.table import ProxyTable

from tests.support.builders import NOW, a_proxy
from tests.support.servers import create_tables

LATER = NOW + timedelta(hours=2)


@pytest.fixture
def sweep(aws_endpoint: str) -> Sweep:
    """A sweep with five due proxies."""
    aws.client.cache_clear()
    name = f"so{uuid.uuid4().hex[:8]}"
    tables = create_tables(name)
    queue = aws.client("sqs").create_queue(QueueName=name)["QueueUrl"]
    proxies = ProxyTable(tables["ProxiesTable"])
    proxies.upsert_many(
        [a_proxy(number) for number in range(1, 6)], source_id="a", kind=Kind.UNKNOWN, tags=frozenset(), now=NOW
    )
    return Sweep(proxies, StateTable(tables["StateTable"]), Settings(validate_queue_url=queue, sweep_page=2))


def run_sweep(sweep: Sweep, max_proxies: int) -> dict[str, int]:
    limited = replace(sweep, settings=replace(sweep.settings, sweep_max_proxies=max_proxies))
    return limited.sweep(now=LATER, run_id="r", seconds_left=lambda: 60)


def test_proxies_above_the_limit_of_a_sweep_are_overdue(sweep: Sweep) -> None:
    assert run_sweep(sweep, 2) == {"count": 2, "overdue": 3, "backlog": 0}


def test_a_sweep_that_is_skipped_reports_overdue_proxies(sweep: Sweep) -> None:
    run_sweep(sweep, 2)

    assert run_sweep(sweep, 2) == {"count": 0, "overdue": 3, "backlog": 2}


def test_a_sweep_that_sends_everything_reports_nothing_overdue(sweep: Sweep) -> None:
    assert run_sweep(sweep, 100) == {"count": 5, "overdue": 0, "backlog": 0}


def test_each_proxy_of_two_overlapping_sweeps_is_claimed_once(sweep: Sweep) -> None:
    """Input 84: a slow sweep and the next one send the same messages; the claim ensures a single check."""
    with ThreadPoolExecutor(2) as executor:
        sent = [run["count"] for run in executor.map(lambda max_proxies: run_sweep(sweep, max_proxies), (100, 100))]
    due = {record.id: clock.epoch(record.next_check_at or NOW) for record in sweep.proxies.scan()}

    claims = [sweep.proxies.claim_many(due, now=LATER, claim_seconds=150) for _ in range(2)]

    assert sum(sent) >= len(due)
    assert [len(claim) for claim in claims] == [len(due), 0]
