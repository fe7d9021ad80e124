"""The sweep on the emulated index: selection, order, cursor and overdue proxies."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import boto3
import pytest
from proxypool.checks.check import Verdict
from proxypool.checks.sweep import CURSOR_RESET_SECONDS, Sweep
from proxypool.checks.validate import Validator
from proxypool.proxies.proxy import Status
from proxypool.proxies.record import DUE_SHARDS, ProxyRecord

from tests.support.builders import NOW
from tests.support.checks import a_validator, add_records, at_time, messages, returning, stub_checks

SOON = NOW + timedelta(seconds=1)


def run_sweep(
    validator: Validator, *, now: datetime = SOON, run_id: str = "r", seconds_left: Any = lambda: 60, **settings: Any
) -> dict[str, int]:
    sweep = Sweep(validator.proxies, validator.state, replace(validator.settings, **settings))
    return sweep.sweep(now=now, run_id=run_id, seconds_left=seconds_left)


def drain_queue(validator: Validator) -> list[str]:
    """Receives and deletes all messages of the queue; returns their proxy ids in order."""
    sqs, url, ids = boto3.client("sqs"), validator.settings.validate_queue_url, []
    while messages := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
        for record in messages:
            ids.append(json.loads(record["Body"])["proxy_id"])
            sqs.delete_message(QueueUrl=url, ReceiptHandle=record["ReceiptHandle"])
    return ids


def statuses(ids: list[str], *groups: list[ProxyRecord]) -> list[Status]:
    by_id = {record.id: record.status for group in groups for record in group}
    return [by_id[proxy_id] for proxy_id in ids]


def test_many_new_proxies_do_not_starve_active_ones(aws_endpoint: str) -> None:
    """Half of each page is for overdue active proxies, then unchecked, then dead."""
    validator = a_validator()
    new = add_records(validator, 30, status=Status.UNCHECKED)
    active, dead = add_records(validator, 8, first=100), add_records(validator, 5, status=Status.DEAD, first=200)

    counts = run_sweep(validator, sweep_page=10, sweep_max_proxies=10)
    first = statuses(drain_queue(validator), new, active, dead)
    run_sweep(validator)
    rest = statuses(drain_queue(validator), new, active, dead)

    assert Counter(first) == {Status.UNCHECKED: 5, Status.ACTIVE: 5}
    assert counts["overdue"] == 33
    assert Counter(rest)[Status.DEAD] == 5
    assert len(rest) >= 33


def test_a_sweep_sends_pages_until_nothing_is_due(aws_endpoint: str) -> None:
    validator = a_validator()
    due, later = add_records(validator, 25), add_records(validator, 3, first=100)
    for record in later:
        boto3.client("dynamodb").update_item(
            TableName=validator.proxies.table_name, Key={"proxy_id": {"S": record.id}},
            UpdateExpression="SET next_check_at = :at", ExpressionAttributeValues={":at": {"N": "4000000000"}},
        )  # fmt: skip

    counts = run_sweep(validator, sweep_page=10)

    assert (counts["count"], counts["overdue"]) == (25, 0)
    assert sorted(drain_queue(validator)) == sorted(record.id for record in due)


def test_a_sweep_continues_at_the_cursor_and_resets_it_each_hour(aws_endpoint: str) -> None:
    """A lost message is replaced: the proxy is still due, and the sweep after the cursor reset finds it."""
    validator = a_validator()
    records = add_records(validator, 60, apart_seconds=1)
    run_sweep(validator)
    drain_queue(validator)  # simulates lost messages

    second_count = run_sweep(validator, now=SOON + timedelta(seconds=60))["count"]
    drain_queue(validator)
    after_reset = run_sweep(validator, now=SOON + timedelta(seconds=CURSOR_RESET_SECONDS))["count"]

    assert second_count <= DUE_SHARDS  # proxies at a shard's cursor are read again: the claim prevents a second check
    assert after_reset == len(records)


def test_a_sweep_without_time_left_reports_overdue_proxies(aws_endpoint: str) -> None:
    validator = a_validator()
    add_records(validator, 12)
    times_left = iter([60.0, 60.0])

    counts = run_sweep(validator, sweep_page=5, seconds_left=lambda: next(times_left, 0.0))

    assert counts["count"] == 10
    assert counts["overdue"] == 2


def test_a_sweep_is_skipped_if_the_queue_has_a_backlog(aws_endpoint: str) -> None:
    validator = a_validator()
    add_records(validator, 12)
    run_sweep(validator)

    assert run_sweep(validator, now=SOON + timedelta(hours=2), sweep_max_proxies=12) == {
        "count": 0,
        "overdue": 12,
        "backlog": 12,
    }


def test_two_concurrent_sweeps_check_each_proxy_once(aws_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Input 84: both send the same messages; claims ensure that each proxy is checked once."""
    validator = a_validator()
    records = add_records(validator, 10)
    stub_checks(monkeypatch, returning(Verdict.PASSED))
    run_sweep(validator, run_id="a")
    validator.state.delete("cursor:revalidate_sweep")
    run_sweep(validator, run_id="b")
    ids = drain_queue(validator)

    first = at_time(validator, SOON).validate(messages(records, sweep_id="a"), seconds=60)
    second = at_time(validator, SOON).validate(messages(records, sweep_id="b"), seconds=60)

    assert len(ids) == 20
    assert (first.counts["passed"], second.counts["superseded"]) == (10, 10)
    assert all(row.check.count == 6 for row in validator.proxies.get_many(record.id for record in records).values())
