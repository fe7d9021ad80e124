"""A deployment in this process: tables, queues, bus and cache, and the functions' modules with their environment."""

from __future__ import annotations

import importlib.util
import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from proxypool import aws, clock
from proxypool.aws.state import StateTable
from proxypool.config import settings
from proxypool.config.settings import Settings
from proxypool.leases.build import build_bridge
from proxypool.manage.routes import manager
from proxypool.proxies.record import ProxyRecord
from proxypool.proxies.table import ProxyTable, from_image, to_item
from proxypool.sources.api import from_request
from proxypool.sources.table import SourceTable
from proxypool.tasks.runs import last_name

from tests.support.bus import EventRecorder
from tests.support.environment import environment
from tests.support.servers import ROOT, create_tables

CONTEXT = SimpleNamespace(aws_request_id="run-1", get_remaining_time_in_millis=lambda: 60_000)


def sample(function: str) -> dict[str, Any]:
    """A function's sample event."""
    event: dict[str, Any] = json.loads((ROOT / "events" / f"{function}.json").read_text())
    return event


def sampled_proxy() -> ProxyRecord:
    """The proxy in the sample events."""
    return from_image(sample("index_pool")["Records"][0]["dynamodb"]["NewImage"])


@dataclass(frozen=True, slots=True)
class Deployment:
    """A pool in this process: the source `demo`, the proxy of the samples (ready and due), and the functions' environment."""

    settings: Settings
    events: EventRecorder

    @property
    def proxy(self) -> ProxyRecord:
        """The stored record of the proxy of the samples."""
        found = ProxyTable(self.settings.proxies_table).get(sampled_proxy().id)
        assert found is not None
        return found

    def sent(self, queue_url: str) -> list[dict[str, Any]]:
        """The bodies of up to ten messages of a queue, which are deleted."""
        sqs = aws.client("sqs")
        found = sqs.receive_message(QueueUrl=queue_url, MaxNumberOfMessages=10).get("Messages", [])
        for message in found:
            sqs.delete_message(QueueUrl=queue_url, ReceiptHandle=message["ReceiptHandle"])
        return [json.loads(message["Body"]) for message in found]

    def last(self, task: str) -> dict[str, Any]:
        """The result of a task's last run."""
        run: dict[str, Any] = StateTable(self.settings.state_table).get(last_name(task))
        return run


def load(function: str) -> ModuleType:
    """A new import of the function's module, as in a new Lambda environment."""
    spec = importlib.util.spec_from_file_location(f"sampled_{function}", ROOT / "functions" / function / "app.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextmanager
def deployed(redis_url: str) -> Iterator[Deployment]:
    """Creates the resources of the template, at the AWS endpoint of this process, for a pool with a unique name."""
    aws.client.cache_clear()
    name = f"sa{uuid.uuid4().hex[:8]}"
    tables, sqs = create_tables(f"{name}-"), aws.client("sqs")
    aws.client("events").create_event_bus(Name=f"{name}-bus")
    aws.client("s3").create_bucket(Bucket=name)
    known = Settings(
        sources_table=tables["SourcesTable"], proxies_table=tables["ProxiesTable"], checks_table=tables["ChecksTable"],
        leases_table=tables["LeasesTable"], state_table=tables["StateTable"], pool=name, redis_url=redis_url,
        scrape_queue_url=sqs.create_queue(QueueName=f"{name}-scrape")["QueueUrl"],
        validate_queue_url=sqs.create_queue(QueueName=f"{name}-validate")["QueueUrl"],
        fetch_queue_url=sqs.create_queue(QueueName=f"{name}-fetch")["QueueUrl"],
        jobs_table=tables["JobsTable"], api_url="http://127.0.0.1:9/",
        event_bus=f"{name}-bus", bodies_bucket=name, expire_retry_seconds=0,
        judge_secret_arn=aws.client("secretsmanager").create_secret(Name=name, SecretString="k" * 64)["ARN"],
        judge_url="http://198.51.100.1/",  # a documentation address: rejected before any packet is sent
    )  # fmt: skip
    source = from_request({"id": "demo", "inline": "8.8.8.8:80\n8.8.4.4:80"}, settings=known, now=clock.now())
    SourceTable(known.sources_table).put_new(source)
    item = to_item(replace(sampled_proxy(), last_checked_at=clock.now()))
    aws.client("dynamodb").put_item(TableName=known.proxies_table, Item=item.serialize())
    build_bridge(known).run("first", until=float("inf"))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment(known).items():
            patch.setenv(name, value)
        _forget_settings()
        yield Deployment(known, EventRecorder.subscribe(known.event_bus, aws.client, f"{known.pool}-recorder"))
    _forget_settings()


def _forget_settings() -> None:
    settings.settings.cache_clear()
    manager.cache_clear()
