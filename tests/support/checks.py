"""A validator of its own on the emulated AWS, rows to begin with, and checks that are not made but told."""

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
from proxypool import aws, clock, state
from proxypool.checks import direct, pipeline
from proxypool.checks.check import Basis, Blame, Check, Reason, TargetVerdict, Verdict
from proxypool.checks.context import Bench
from proxypool.checks.table import ChecksTable
from proxypool.checks.validate import Validator
from proxypool.proxies.proxy import Anonymity, Protocol, Proxy, Status
from proxypool.proxies.record import CheckFacts, ProxyRecord
from proxypool.proxies.table import ProxyTable, to_item
from proxypool.queues import ValidateMessage
from proxypool.settings import Settings
from proxypool.state import State

from tests.support.builders import NOW, a_record
from tests.support.servers import create_tables

Told = Callable[[Proxy, datetime], Check]


def a_validator(*, now: datetime = NOW, **settings: Any) -> Validator:
    """On tables, a queue, a key and a bus of its own; `listen_to(bus)` hears the events."""
    aws.client.cache_clear()
    state._seen.clear()
    name = f"v{uuid4().hex[:8]}"
    tables = create_tables(name)
    known = Settings(
        judge_url="http://127.0.0.1:9/", allow_loopback=True, event_bus=name,
        validate_queue_url=boto3.client("sqs").create_queue(QueueName=name)["QueueUrl"],
        judge_secret_arn=boto3.client("secretsmanager").create_secret(Name=name, SecretString="secret")["ARN"],
    )  # fmt: skip
    boto3.client("events").create_event_bus(Name=name)
    return Validator(
        ProxyTable(tables["ProxiesTable"]), ChecksTable(tables["ChecksTable"]), State(tables["StateTable"]),
        replace(known, **settings), now=lambda: now,
    )  # fmt: skip


def at(validator: Validator, now: datetime) -> Validator:
    """The same, at another time."""
    return replace(validator, now=lambda: now)


def rows(
    validator: Validator,
    count: int,
    *,
    status: Status = Status.ACTIVE,
    first: int = 0,
    apart_seconds: int = 0,
    **facts: Any,
) -> list[ProxyRecord]:
    """So many records in the table, due now (each so much earlier than the one before); active ones passed their last check."""
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
    """What asks for them."""
    return {
        one.id: ValidateMessage(proxy_id=one.id, next_check_at=clock.epoch(one.next_check_at), sweep_id=sweep_id)
        for one in records
        if one.next_check_at
    }


def told(verdict: Verdict, **parts: Any) -> Told:
    """A check of that verdict, whatever the proxy."""
    values: dict[str, Any] = {"latency_ms": 40.0, "exits": ("127.0.0.7",), "https": True, "anonymity": Anonymity.ELITE}
    if verdict is not Verdict.PASSED:
        blame = Blame.PROXY if verdict is Verdict.FAILED else Blame.OURS
        values = {"reason": Reason.REFUSED, "blame": blame}
    return lambda proxy, now: Check(proxy_id=proxy.id, checked_at=now, verdict=verdict, **(values | parts))


def tell(patch: pytest.MonkeyPatch, say: Told) -> None:
    """Checks say this instead of asking anybody; the judge is up."""

    async def introduced(to: Bench) -> Bench:
        return to

    async def check(proxy: Proxy, bench: Bench, *, now: datetime, full: bool = True, **more: bool) -> Check:
        return replace(say(proxy, now), full=full)

    patch.setattr(direct, "introduced", introduced)
    patch.setattr(pipeline, "check", check)


@contextmanager
def listening(bus: str) -> Any:
    """Hears the bus: yields a function that returns the events so far, as (type, detail)."""
    sqs, events = boto3.client("sqs"), boto3.client("events")
    url = sqs.create_queue(QueueName=f"{bus}-events")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    events.put_rule(Name=f"{bus}-rule", EventBusName=bus, EventPattern='{"source": ["proxypool"]}')
    events.put_targets(Rule=f"{bus}-rule", EventBusName=bus, Targets=[{"Id": "queue", "Arn": arn}])
    found: list[tuple[str, dict[str, Any]]] = []

    def heard() -> list[tuple[str, dict[str, Any]]]:
        while received := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
            for one in received:
                event = json.loads(one["Body"])
                found.append((event["detail-type"], event["detail"]))
                sqs.delete_message(QueueUrl=url, ReceiptHandle=one["ReceiptHandle"])
        return found

    yield heard


def read_check(proxy_id: str, facts: dict[str, Any]) -> Check:
    """A check as the table keeps it."""
    words = {
        "reason": Reason,
        "blame": Blame,
        "anonymity": Anonymity,
        "basis": Basis,
        "spoken": Protocol,
        "verdict": Verdict,
    }
    values: dict[str, Any] = {name: words[name](value) if name in words else value for name, value in facts.items()}
    values["checked_at"] = datetime.fromisoformat(facts["checked_at"].partition("#")[0])
    values["exits"] = tuple(facts.get("exits", ()))
    values["targets"] = {host: TargetVerdict(word) for host, word in dict(facts.get("targets", {})).items()}
    return Check(proxy_id=proxy_id, **values)
