"""A batch of the validate queue on the emulator, with real proxies and a judge on loopback."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from collections.abc import Coroutine, Iterator
from dataclasses import replace
from datetime import timedelta
from importlib.util import module_from_spec, spec_from_file_location
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import boto3
import pytest
from proxypool import aws, clock
from proxypool.aws import queues
from proxypool.aws.queues import ValidateMessage
from proxypool.aws.state import StateTable
from proxypool.checks.probe import pipeline
from proxypool.checks.prune import Pruner
from proxypool.checks.sweep import Sweep
from proxypool.checks.table import ChecksTable
from proxypool.checks.validate import Validator
from proxypool.config.settings import Settings
from proxypool.proxies.proxy import Kind, Protocol, Proxy, Status
from proxypool.proxies.record import CheckFacts
from proxypool.proxies.table import ProxyTable
from proxypool.tasks import handlers

from tests.integration.checks.test_check_pipeline import forwarding_proxy, judge_behaviour, port, responds, serve
from tests.support.servers import ROOT, create_tables


@pytest.fixture
def loopback() -> Iterator[Any]:
    """Runs servers in an event loop of another thread; call it with the coroutine that starts one."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    servers: list[asyncio.Server] = []

    def run(coroutine: Coroutine[Any, Any, asyncio.Server]) -> asyncio.Server:
        servers.append(asyncio.run_coroutine_threadsafe(coroutine, loop).result(30))
        return servers[-1]

    async def end() -> None:
        for server in servers:
            server.close()
        pending = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.wait(pending, timeout=10) if pending else None

    yield run
    asyncio.run_coroutine_threadsafe(end(), loop).result(30)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@pytest.fixture
def validator(aws_endpoint: str, loopback: Any) -> Validator:
    aws.client.cache_clear()
    name = f"v{uuid4().hex[:8]}"
    tables = create_tables(name)
    queue = boto3.client("sqs").create_queue(QueueName=name)["QueueUrl"]
    secret = boto3.client("secretsmanager").create_secret(Name=name, SecretString="secret")["ARN"]
    bus = boto3.client("events").create_event_bus(Name=name)["EventBusArn"].rpartition("/")[2]
    judge_port = port(loopback(serve(judge_behaviour)))
    settings = Settings(
        judge_url=f"http://127.0.0.1:{judge_port}/", judge_secret_arn=secret, allow_loopback=True, event_bus=bus,
        validate_queue_url=queue, check_stage_seconds=10, check_total_seconds=20, check_connect_seconds=10,
    )  # fmt: skip
    return Validator(
        ProxyTable(tables["ProxiesTable"]),
        ChecksTable(tables["ChecksTable"]),
        StateTable(tables["StateTable"]),
        settings,
    )


@pytest.fixture
def load_app(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Loads the function's app with this validator and its settings instead of those of the environment."""

    def load(validator: Validator) -> Any:
        spec = spec_from_file_location("validate_app", ROOT / "functions/validate_proxy/app.py")
        assert spec
        assert spec.loader
        app = module_from_spec(spec)
        spec.loader.exec_module(app)
        tables = validator.proxies.table_name, validator.checks.table_name
        known = replace(
            validator.settings, state_table=validator.state.table_name, proxies_table=tables[0], checks_table=tables[1]
        )
        monkeypatch.setattr(app, "settings", lambda: known)
        monkeypatch.setattr(handlers, "settings", lambda: known)
        return app

    return load


def store_proxies(validator: Validator, *ports: int) -> dict[str, ValidateMessage]:
    """Stores unchecked proxies with these ports; returns the messages that request their checks."""
    proxies = [Proxy(Protocol.HTTP, "127.0.0.1", number) for number in ports]
    new = validator.proxies.upsert_many(
        proxies, source_id="s", kind=Kind.UNKNOWN, tags=frozenset(), now=clock.now()
    ).new
    return {
        record.id: ValidateMessage(proxy_id=record.id, next_check_at=clock.epoch(record.next_check_at))
        for record in new
        if record.next_check_at
    }


def test_a_batch_is_checked_once_however_often_it_is_delivered(
    validator: Validator, loopback: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I9, input 71. One TLS context serves the whole batch."""
    contexts: list[int] = []
    create = ssl.create_default_context

    def counting_create() -> ssl.SSLContext:
        contexts.append(1)
        return create()

    monkeypatch.setattr(ssl, "create_default_context", counting_create)
    good, bad = port(loopback(serve(forwarding_proxy()))), port(loopback(serve(responds(b"nonsense"))))
    messages = store_proxies(validator, good, bad)

    first = validator.validate(messages, seconds=60)
    second = validator.validate(messages, seconds=60)

    rows = validator.proxies.get_many(messages)
    assert first.counts["passed"] == first.counts["failed"] == 1
    assert not first.unfinished
    assert second.counts["superseded"] == 2
    assert {row.proxy.port: row.status for row in rows.values()} == {good: Status.ACTIVE, bad: Status.DEAD}
    assert all(row.check.count == 1 and row.claim == 0 for row in rows.values())
    assert all(len(validator.checks.keys(proxy_id)) == 1 for proxy_id in messages)
    assert len(contexts) == 1


def test_while_the_judge_is_down_no_record_changes_and_all_are_due_for_the_next_sweep(
    validator: Validator, loopback: Any
) -> None:
    """Case 32: no claim remains, and the proxy is due again at once although its message was consumed."""
    messages = store_proxies(validator, port(loopback(serve(forwarding_proxy()))))
    down = Settings(judge_url="http://127.0.0.1:9/", allow_loopback=True, event_bus=validator.settings.event_bus)
    broken = Validator(validator.proxies, validator.checks, validator.state, down)

    outcome = broken.validate(messages, seconds=60)

    (row,) = validator.proxies.get_many(messages).values()
    assert outcome.counts["inconclusive"] == 1
    assert (row.status, row.check.count, row.claim) == (Status.UNCHECKED, 0, 0)
    assert row.next_check_at is not None
    assert row.next_check_at <= clock.now()
    again = {row.id: ValidateMessage(proxy_id=row.id, next_check_at=clock.epoch(row.next_check_at))}
    assert validator.validate(again, seconds=60).counts["passed"] == 1


def test_an_unfinished_check_is_delivered_again(validator: Validator, loopback: Any) -> None:
    """I13, input 83: the claim is released, so that the retry can claim the proxy."""
    messages = store_proxies(validator, port(loopback(serve(forwarding_proxy()))))

    outcome = validator.validate(messages, seconds=0)

    assert outcome.unfinished == set(messages)
    assert validator.validate(messages, seconds=60).counts["passed"] == 1


def test_a_sweep_enqueues_due_proxies_and_long_dead_ones_are_pruned(validator: Validator, loopback: Any) -> None:
    """I8, I22."""
    messages = store_proxies(
        validator, port(loopback(serve(forwarding_proxy()))), port(loopback(serve(responds(b"nonsense"))))
    )
    validator.validate(messages, seconds=60)
    parts = (validator.proxies, validator.state, validator.settings)
    later = clock.now() + timedelta(days=31)

    sweep_counts = Sweep(*parts).sweep(now=later, run_id="r", seconds_left=lambda: 60)
    prune_counts = Pruner(validator.proxies, validator.checks, *parts[1:]).prune_dead_proxies(
        now=later, seconds_left=lambda: 60
    )

    received = boto3.client("sqs").receive_message(
        QueueUrl=validator.settings.validate_queue_url, MaxNumberOfMessages=10
    )["Messages"]
    assert sweep_counts["count"] == 2
    assert {json.loads(message["Body"])["proxy_id"] for message in received} == set(messages)
    assert prune_counts["count"] == 1
    assert [row.status for row in validator.proxies.scan()] == [Status.ACTIVE]


def test_a_late_result_without_the_claim_changes_nothing(validator: Validator) -> None:
    """Input 72, I9: another run has claimed the proxy meanwhile."""
    messages = store_proxies(validator, 1)
    (row,) = validator.proxies.get_many(messages).values()
    due = {row.id: messages[row.id].next_check_at}
    late = replace(row, claim=1, status=Status.DEAD, check=CheckFacts(count=1), last_checked_at=clock.now())
    validator.proxies.claim_many(due, now=clock.now(), claim_seconds=150)

    assert validator.proxies.record_many([late]) == set()
    assert validator.proxies.get_many(messages)[row.id].status is Status.UNCHECKED


def test_a_poison_message_fails_alone(validator: Validator, loopback: Any, load_app: Any) -> None:
    """I14, input 74, case 38."""
    app = load_app(validator)
    (message,) = store_proxies(validator, port(loopback(serve(forwarding_proxy())))).values()
    bodies = {"poison": "{", "future": '{"v": 99}', "good": queues.encode(message)}
    event = {"Records": [{"messageId": name, "receiptHandle": "r", "body": body} for name, body in bodies.items()]}

    response = app.handler(event, SimpleNamespace(aws_request_id="run", get_remaining_time_in_millis=lambda: 60_000))

    assert [failure["itemIdentifier"] for failure in response["batchItemFailures"]] == ["poison", "future"]
    assert validator.state.get("reason:poison")["reason"] == "not JSON"
    assert validator.state.get("task:run")["counts"]["count_passed"] == 1


def test_a_check_that_raises_does_not_affect_the_others(
    validator: Validator, loopback: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case 38: the other checks are written without delay."""
    messages = store_proxies(validator, *(port(loopback(serve(forwarding_proxy()))) for _ in range(3)))
    broken = next(iter(messages))
    check = pipeline.check

    async def failing_for_one(proxy: Proxy, *parts: Any, **more: Any) -> Any:
        if proxy.id == broken:
            raise RuntimeError("ours")
        return await check(proxy, *parts, **more)

    monkeypatch.setattr(pipeline, "check", failing_for_one)
    outcome = validator.validate(messages, seconds=60)

    assert outcome.unfinished == {broken}
    assert outcome.counts["passed"] == 2
