"""A validator on the emulated AWS with its own resources, stored records, and stubbed checks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import boto3
import pytest
from proxypool import aws, clock
from proxypool.aws import state
from proxypool.aws.queues import ValidateMessage
from proxypool.aws.state import StateTable
from proxypool.checks.check import Blame, Check, JudgeKind, Reason, TargetVerdict, Verdict
from proxypool.checks.judge import judges
from proxypool.checks.probe import pipeline
from proxypool.checks.probe.context import CheckContext
from proxypool.checks.table import ChecksTable
from proxypool.checks.validate import Validator
from proxypool.config.settings import Settings
from proxypool.proxies.proxy import Anonymity, Protocol, Proxy, Status
from proxypool.proxies.record import CheckFacts, ProxyRecord
from proxypool.proxies.table import ProxyTable, to_item

from tests.support.builders import NOW, a_record
from tests.support.servers import create_tables

CheckStub = Callable[[Proxy, datetime], Check]


def a_validator(*, now: datetime = NOW, **settings: Any) -> Validator:
    """With its own tables, queue, key and event bus; `now` is its fixed clock."""
    aws.client.cache_clear()
    state._settings_cache.clear()
    name = f"v{uuid4().hex[:8]}"
    tables = create_tables(name)
    defaults = Settings(
        judge_url="http://127.0.0.1:9/", allow_loopback=True, event_bus=name,
        validate_queue_url=boto3.client("sqs").create_queue(QueueName=name)["QueueUrl"],
        judge_secret_arn=boto3.client("secretsmanager").create_secret(Name=name, SecretString="secret")["ARN"],
    )  # fmt: skip
    boto3.client("events").create_event_bus(Name=name)
    return Validator(
        ProxyTable(tables["ProxiesTable"]), ChecksTable(tables["ChecksTable"]), StateTable(tables["StateTable"]),
        replace(defaults, **settings), now=lambda: now,
    )  # fmt: skip


def at_time(validator: Validator, now: datetime) -> Validator:
    """The same validator with another fixed clock."""
    return replace(validator, now=lambda: now)


def add_records(
    validator: Validator,
    count: int,
    *,
    status: Status = Status.ACTIVE,
    first: int = 0,
    apart_seconds: int = 0,
    **facts: Any,
) -> list[ProxyRecord]:
    """Stores `count` records that are due at NOW, or each `apart_seconds` earlier than the one before; active ones
    passed their last check.
    """
    active = {"passed": 5.0, "count": 5, "latency_ms": 50.0} if status is Status.ACTIVE else {}
    records = [
        a_record(
            proxy=Proxy(Protocol.HTTP, "127.0.0.1", 20_000 + number), status=status, next_check_at=NOW - timedelta(seconds=apart_seconds * (number - first)),
            check=CheckFacts(**(active | facts)), last_checked_at=NOW - timedelta(seconds=600) if active else None,
        )
        for number in range(first, first + count)
    ]  # fmt: skip
    for record in records:
        aws.client("dynamodb").put_item(TableName=validator.proxies.table_name, Item=to_item(record).serialize())
    return records


def messages(records: Iterable[ProxyRecord], *, sweep_id: str = "") -> dict[str, ValidateMessage]:
    """The queue messages that request checks of these records, by proxy id."""
    return {
        record.id: ValidateMessage(
            proxy_id=record.id, next_check_at=clock.epoch(record.next_check_at), sweep_id=sweep_id
        )
        for record in records
        if record.next_check_at
    }


def returning(verdict: Verdict, **parts: Any) -> CheckStub:
    """A stub that returns a check with this verdict for any proxy."""
    values: dict[str, Any] = {"latency_ms": 40.0, "exits": ("127.0.0.7",), "https": True, "anonymity": Anonymity.ELITE}
    if verdict is not Verdict.PASSED:
        blame = Blame.PROXY if verdict is Verdict.FAILED else Blame.POOL
        values = {"reason": Reason.REFUSED, "blame": blame}
    return lambda proxy, now: Check(proxy_id=proxy.id, checked_at=now, verdict=verdict, **(values | parts))


def stub_checks(patch: pytest.MonkeyPatch, stub: CheckStub) -> None:
    """Replaces the pipeline by a stub; the judges count as up."""

    async def probe_judges(to: CheckContext) -> CheckContext:
        return to

    async def check(proxy: Proxy, context: CheckContext, *, now: datetime, full: bool = True, **more: bool) -> Check:
        return replace(stub(proxy, now), full=full)

    patch.setattr(judges, "probe_judges", probe_judges)
    patch.setattr(pipeline, "check", check)


@contextmanager
def captured_events(bus: str) -> Any:
    """Subscribes to the bus; yields a function that returns the events so far, as (type, detail)."""
    sqs, events = boto3.client("sqs"), boto3.client("events")
    url = sqs.create_queue(QueueName=f"{bus}-events")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    events.put_rule(Name=f"{bus}-rule", EventBusName=bus, EventPattern='{"source": ["proxypool"]}')
    events.put_targets(Rule=f"{bus}-rule", EventBusName=bus, Targets=[{"Id": "queue", "Arn": arn}])
    events_so_far: list[tuple[str, dict[str, Any]]] = []

    def events_until_now() -> list[tuple[str, dict[str, Any]]]:
        while received := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
            for one in received:
                event = json.loads(one["Body"])
                events_so_far.append((event["detail-type"], event["detail"]))
                sqs.delete_message(QueueUrl=url, ReceiptHandle=one["ReceiptHandle"])
        return events_so_far

    yield events_until_now


def check_from_facts(proxy_id: str, facts: dict[str, Any]) -> Check:
    """The check of an item in the checks table."""
    types = {
        "reason": Reason,
        "blame": Blame,
        "anonymity": Anonymity,
        "basis": JudgeKind,
        "spoken": Protocol,
        "verdict": Verdict,
    }
    values: dict[str, Any] = {name: types[name](value) if name in types else value for name, value in facts.items()}
    values["detected_protocol"] = values.pop("spoken", None)
    values["checked_at"] = datetime.fromisoformat(facts["checked_at"].partition("#")[0])
    values["exits"] = tuple(facts.get("exits", ()))
    values["targets"] = {host: TargetVerdict(verdict) for host, verdict in dict(facts.get("targets", {})).items()}
    return Check(proxy_id=proxy_id, **values)
