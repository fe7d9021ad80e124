"""The way of a password through all functions: it leaves only in the lease response of its holder."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from botocore.client import BaseClient
from proxypool import aws
from proxypool.config.settings import Settings, settings
from proxypool.leases.build import build_cache
from proxypool.manage import routes
from proxypool.proxies.table import ProxyTable, to_item
from proxypool.telemetry import log

from functions.expire_leases import app as expire_leases
from functions.index_pool import app as index_pool
from functions.lease import app as lease
from functions.manage import app as manage
from functions.scrape_source import app as scrape_source
from functions.validate_proxy import app as validate_proxy
from tests.integration.checks.test_check_pipeline import Behaviour, forward, judge_behaviour, port, response, serve
from tests.support.clock import Clock
from tests.support.environment import environment
from tests.support.servers import create_tables

SECRET = "s3cr3t-password"
CONTEXT = SimpleNamespace(aws_request_id="run", get_remaining_time_in_millis=lambda: 100_000)
CACHES = (settings, aws.client, index_pool.index, lease.pool, routes.manager)
HANDLERS = (scrape_source.handler, validate_proxy.handler, expire_leases.handler)


def requires(password: str) -> Behaviour:
    """A proxy that accepts `user` with this password and answers 407 otherwise."""
    credentials = b"Basic " + base64.b64encode(f"user:{password}".encode())

    async def behave(_: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
        lines = head.split(b"\r\n")
        if not any(line.lower().startswith(b"proxy-authorization") and line.endswith(credentials) for line in lines):
            writer.write(response(b"", status="407 Who are you"))
            return
        forwarded = b"\r\n".join(line for line in lines if not line.lower().startswith(b"proxy-"))
        writer.write(await forward(forwarded))

    return behave


@dataclass
class LeakCheck:
    """The functions with tables, queues and Redis, and all their output."""

    settings: Settings
    ports: dict[str, int]
    logged: io.StringIO = field(default_factory=io.StringIO)
    sent: list[str] = field(default_factory=list)  # requests to AWS, except for the two tables with credentials
    answers: list[str] = field(default_factory=list)  # of the API, except for leases of the holder

    def ask(self, function: Any, route: str, body: object = None, *, name: str = "", owner: str = "alice") -> Any:
        """Calls a route; returns the JSON of the response."""
        method, _, path = route.partition(" ")
        event = {
            "version": "2.0", "routeKey": route, "rawPath": path.replace("{id}", name),
            "headers": {"content-type": "application/json", "x-proxypool-owner": owner},
            "pathParameters": {"id": name}, "body": None if body is None else json.dumps(body),
            "requestContext": {"stage": "$default", "http": {"method": method, "path": path}},
        }  # fmt: skip
        answer = function.handler(event, CONTEXT)
        text = json.dumps(answer)
        is_holder = function is lease and owner == "alice" and answer["statusCode"] < 300
        if not is_holder:
            self.answers.append(text)
        return json.loads(answer.get("body") or "null")

    def deliver(self, function: Any, queue_url: str) -> None:
        """Delivers all messages of a queue to a function."""
        sqs = aws.client("sqs")
        while messages := sqs.receive_message(QueueUrl=queue_url, MaxNumberOfMessages=10).get("Messages", []):
            records = [
                {"messageId": message["MessageId"], "receiptHandle": message["ReceiptHandle"], "body": message["Body"],
                 "attributes": {"ApproximateReceiveCount": "1"}}
                for message in messages
            ]  # fmt: skip
            function.handler({"Records": records}, CONTEXT)
            for message in messages:
                sqs.delete_message(QueueUrl=queue_url, ReceiptHandle=message["ReceiptHandle"])

    def index(self) -> None:
        """Indexes every row in Redis like the stream of the table does; one record is invalid."""
        rows = [to_item(record).serialize() for record in ProxyTable(self.settings.proxies_table).scan()]
        images = [{name: value for name, value in row.items() if value is not None} for row in rows]
        images.append({"proxy_id": {"S": "x"}, "pw": {"S": SECRET}})
        records = [
            {"eventName": "MODIFY", "dynamodb": {"NewImage": image, "SequenceNumber": str(number)}}
            for number, image in enumerate(images, 1)
        ]
        assert index_pool.handler({"Records": records}, CONTEXT) == {"batchItemFailures": []}


@contextmanager
def served(behaviours: dict[str, Behaviour]) -> Iterator[dict[str, int]]:
    """Runs servers on loopback in a thread; yields their ports."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def run(coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result(5)

    servers = {name: run(serve(behaviour)) for name, behaviour in behaviours.items()}
    try:
        yield {name: port(server) for name, server in servers.items()}
    finally:
        run(_end(list(servers.values())))
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _end(servers: list[asyncio.Server]) -> None:
    for server in servers:
        server.close()
    pending = asyncio.all_tasks() - {asyncio.current_task()}
    if pending:
        await asyncio.wait(pending, timeout=10)


@pytest.fixture
def world(aws_endpoint: str, valkey_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[LeakCheck]:
    """A deployment with a judge and two proxies with passwords; one has another password."""
    prefix = f"c{uuid4().hex[:8]}-"
    tables, sqs = create_tables(prefix), aws.client("sqs")
    aws.client("s3").create_bucket(Bucket=prefix + "bodies")
    servers = {"judge": judge_behaviour, "good": requires(SECRET), "refusing": requires("another")}
    with served(servers) as ports:
        config = Settings(
            sources_table=tables["SourcesTable"], proxies_table=tables["ProxiesTable"],
            checks_table=tables["ChecksTable"], leases_table=tables["LeasesTable"], state_table=tables["StateTable"],
            scrape_queue_url=sqs.create_queue(QueueName=prefix + "scrape")["QueueUrl"],
            validate_queue_url=sqs.create_queue(QueueName=prefix + "validate")["QueueUrl"],
            judge_url=f"http://127.0.0.1:{ports['judge']}/",
            judge_secret_arn=aws.client("secretsmanager").create_secret(Name=prefix, SecretString="secret")["ARN"],
            event_bus=aws.client("events").create_event_bus(Name=prefix + "bus")["EventBusArn"].rpartition("/")[2],
            bodies_bucket=prefix + "bodies", redis_url=valkey_url, pool=prefix[:-1], allow_loopback=True, check_stage_seconds=10, check_total_seconds=20,
        )  # fmt: skip
        for name, value in environment(config).items():
            monkeypatch.setenv(name, value)
        _clear_caches()
        world = LeakCheck(config, ports)
        monkeypatch.setattr(log.registered_handler, "stream", world.logged)
        monkeypatch.setattr(BaseClient, "_make_api_call", _recording(world, BaseClient._make_api_call))
        yield world
        _clear_caches()


def _clear_caches() -> None:
    for cached in CACHES:
        cached.cache_clear()
    for handler in HANDLERS:
        vars(handler).pop("_dependencies", None)


def _recording(world: LeakCheck, original: Callable[..., Any]) -> Callable[..., Any]:
    holds_credentials = (world.settings.sources_table, world.settings.proxies_table)

    def record(client: Any, operation: str, arguments: dict[str, Any]) -> Any:
        text = f"{operation} {json.dumps(arguments, default=str)}"
        if not any(table in text for table in holds_credentials):
            world.sent.append(text)
        return original(client, operation, arguments)

    return record


def test_a_password_is_only_in_the_lease_response_of_its_holder(
    world: LeakCheck, capsys: pytest.CaptureFixture[str], clock: Clock
) -> None:
    """I19, inputs 15 and 89, case 36: in no log line, metric, message, event, result, ledger row, error or list."""
    good = f"127.0.0.1:{world.ports['good']}"
    lines = [
        f"user:{SECRET}@{good}",
        f"user:{SECRET}@127.0.0.1:{world.ports['refusing']}",
        f"user:{SECRET}@127.0.0.1:9",  # no server
        f"user:{SECRET}@10.0.0.1:80",  # not public
        f"http://user:{SECRET}@exa mple:80\x1b[31m",  # malformed
    ]
    world.ask(manage, "POST /sources", {"id": "list", "inline": "\n".join(lines)})
    world.ask(manage, "POST /sources", {"url": f"https://user:{SECRET}@a.example/list"})
    world.ask(manage, "POST /sources", {"inline": SECRET, "parser": SECRET, "tags": [SECRET + "!"], "kind": SECRET})
    world.ask(manage, "POST /proxies", {"lines": f"http://user:{SECRET}@exa mple:80"})
    world.ask(manage, "POST /sources/{id}/scrape", name="list")
    world.deliver(scrape_source, world.settings.scrape_queue_url)
    world.deliver(validate_proxy, world.settings.validate_queue_url)
    expire_leases.handler({}, CONTEXT)
    world.index()

    held = world.ask(lease, "POST /leases", {"ttl_seconds": 60})
    world.ask(lease, "POST /leases", {}, owner="bob")
    world.ask(lease, "GET /leases", owner="bob")
    world.ask(lease, "DELETE /leases/{id}", name=held["id"], owner="bob")
    world.ask(lease, "POST /leases/{id}/report", {"outcome": "credentials"}, name=held["id"])
    world.ask(lease, "POST /leases/{id}/release", {"outcome": "ok"}, name=held["id"])
    short = world.ask(lease, "POST /leases", {"ttl_seconds": 1})
    clock.move(seconds=1)
    journal = build_cache(world.settings).command("XRANGE", build_cache(world.settings).keys.journal, "-", "+")
    expire_leases.handler({}, CONTEXT)
    listed = world.ask(manage, "GET /proxies")["proxies"]
    for proxy in listed:
        world.ask(manage, "GET /proxies/{id}", name=proxy["id"])
    for route in ("GET /sources", "GET /stats/pool", "GET /settings"):
        world.ask(manage, route)
    world.ask(manage, "GET /tasks/{id}", name="run")

    assert held["proxy_url"] == short["proxy_url"] == f"http://user:{SECRET}@{good}"
    assert sorted(proxy["status"] for proxy in listed) == ["active", "dead", "dead"]
    assert {proxy["reason"] for proxy in listed} >= {"", "credentials_refused"}
    metrics = capsys.readouterr()
    outputs = {
        "log": world.logged.getvalue(),
        "metrics": metrics.out + metrics.err,
        "messages, events, results, ledger": "\n".join(world.sent),
        "journal": json.dumps(journal),
        "answers": "\n".join(world.answers),
    }
    for name, text in outputs.items():
        assert text, name
        assert SECRET not in text, name
