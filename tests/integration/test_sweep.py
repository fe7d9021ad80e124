"""The sweep against the emulated index: who is asked for, in which order, from where, and what happens to the rest."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import boto3
import pytest
from proxypool.checks.check import Verdict
from proxypool.checks.sweep import FROM_BOTTOM_SECONDS, Sweep
from proxypool.checks.validate import Validator
from proxypool.proxies.proxy import Status
from proxypool.proxies.record import DUE_SHARDS, ProxyRecord

from tests.support.builders import NOW
from tests.support.checks import a_validator, at, messages, rows, tell, told

SOON = NOW + timedelta(seconds=1)


def swept(
    this: Validator, *, now: datetime = SOON, run_id: str = "r", seconds_left: Any = lambda: 60, **settings: Any
) -> dict[str, int]:
    sweep = Sweep(this.proxies, this.state, replace(this.settings, **settings))
    return sweep.sweep(now=now, run_id=run_id, seconds_left=seconds_left)


def received(this: Validator) -> list[str]:
    """The proxies of all messages in the queue, in the order of their coming; the queue is empty then."""
    sqs, url, ids = boto3.client("sqs"), this.settings.validate_queue_url, []
    while found := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
        for one in found:
            ids.append(json.loads(one["Body"])["proxy_id"])
            sqs.delete_message(QueueUrl=url, ReceiptHandle=one["ReceiptHandle"])
    return ids


def statuses(ids: list[str], *groups: list[ProxyRecord]) -> list[Status]:
    by_id = {one.id: one.status for group in groups for one in group}
    return [by_id[proxy_id] for proxy_id in ids]


def test_a_flood_of_new_proxies_starves_no_active_one(aws_endpoint: str) -> None:
    """Half of each page is for overdue active ones, then unchecked, then dead."""
    this = a_validator()
    new = rows(this, 30, status=Status.UNCHECKED)
    active, dead = rows(this, 8, first=100), rows(this, 5, status=Status.DEAD, first=200)

    counts = swept(this, sweep_page=10, sweep_max_proxies=10)
    first = statuses(received(this), new, active, dead)
    swept(this)
    rest = statuses(received(this), new, active, dead)

    assert Counter(first) == {Status.UNCHECKED: 5, Status.ACTIVE: 5}
    assert counts["overdue"] == 33
    assert Counter(rest)[Status.DEAD] == 5
    assert len(rest) >= 33


def test_pages_follow_until_nothing_is_due(aws_endpoint: str) -> None:
    this = a_validator()
    due, later = rows(this, 25), rows(this, 3, first=100)
    for one in later:
        boto3.client("dynamodb").update_item(
            TableName=this.proxies.table_name, Key={"proxy_id": {"S": one.id}},
            UpdateExpression="SET next_check_at = :at", ExpressionAttributeValues={":at": {"N": "4000000000"}},
        )  # fmt: skip

    counts = swept(this, sweep_page=10)

    assert (counts["count"], counts["overdue"]) == (25, 0)
    assert sorted(received(this)) == sorted(one.id for one in due)


def test_a_sweep_goes_on_where_the_last_one_stopped_and_starts_anew_each_hour(aws_endpoint: str) -> None:
    """A lost message ages out: the proxy is still due, and the next round from the bottom finds it."""
    this = a_validator()
    records = rows(this, 60, apart_seconds=1)
    swept(this)
    received(this)  # and lost

    again = swept(this, now=SOON + timedelta(seconds=60))["count"]
    received(this)
    anew = swept(this, now=SOON + timedelta(seconds=FROM_BOTTOM_SECONDS))["count"]

    assert again <= DUE_SHARDS  # who stands at a shard's cursor is read again: the claim decides
    assert anew == len(records)


def test_a_sweep_that_has_no_time_left_tells_what_it_left(aws_endpoint: str) -> None:
    this = a_validator()
    rows(this, 12)
    left = iter([60.0, 60.0])

    counts = swept(this, sweep_page=5, seconds_left=lambda: next(left, 0.0))

    assert counts["count"] == 10
    assert counts["overdue"] == 2


def test_a_full_queue_holds_the_sweep_back(aws_endpoint: str) -> None:
    this = a_validator()
    rows(this, 12)
    swept(this)

    assert swept(this, now=SOON + timedelta(hours=2), sweep_max_proxies=12) == {
        "count": 0,
        "overdue": 12,
        "backlog": 12,
    }


def test_two_sweeps_at_once_have_one_effect(aws_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Input 84: both send the same messages; the claims let each proxy be checked once."""
    this = a_validator()
    records = rows(this, 10)
    tell(monkeypatch, told(Verdict.PASSED))
    swept(this, run_id="a")
    this.state.delete("cursor:revalidate_sweep")
    swept(this, run_id="b")
    ids = received(this)

    first = at(this, SOON).validate(messages(records, sweep_id="a"), seconds=60)
    second = at(this, SOON).validate(messages(records, sweep_id="b"), seconds=60)

    assert len(ids) == 20
    assert (first.counts["passed"], second.counts["superseded"]) == (10, 10)
    assert all(row.check.count == 6 for row in this.proxies.get_many(one.id for one in records).values())
