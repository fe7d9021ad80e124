"""One password on its whole way: through every function, and out by the holder's own lease answer alone."""

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
from proxypool.leases.build import cache_of
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

CANARY = "s3cr3t-canary"
CONTEXT = SimpleNamespace(aws_request_id="run", get_remaining_time_in_millis=lambda: 100_000)
CACHES = (settings, aws.client, index_pool.index, lease.pool, routes.manager)
HANDLERS = (scrape_source.handler, validate_proxy.handler, expire_leases.handler)


def asks_for(password: str) -> Behaviour:
    """A proxy that carries requests of `user` with this password, and says 407 to everybody else."""
    wanted = b"Basic " + base64.b64encode(f"user:{password}".encode())

    async def behave(_: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
        lines = head.split(b"\r\n")
        if not any(line.lower().startswith(b"proxy-authorization") and line.endswith(wanted) for line in lines):
            writer.write(response(b"", status="407 Who are you"))
            return
        kept = b"\r\n".join(line for line in lines if not line.lower().startswith(b"proxy-"))
        writer.write(await forward(kept))

    return behave


@dataclass
class World:
    """The functions over tables, queues and a Redis of their own, and all that they said."""

    known: Settings
    ports: dict[str, int]
    said: io.StringIO = field(default_factory=io.StringIO)
    sent: list[str] = field(default_factory=list)  # requests to AWS, but for the two tables that hold credentials
    answers: list[str] = field(default_factory=list)  # of the API, but for a holder's own lease

    def ask(self, function: Any, route: str, body: object = None, *, name: str = "", owner: str = "alice") -> Any:
        """The JSON of one answer."""
        method, _, path = route.partition(" ")
        event = {
            "version": "2.0", "routeKey": route, "rawPath": path.replace("{id}", name),
            "headers": {"content-type": "application/json", "x-proxypool-owner": owner},
            "pathParameters": {"id": name}, "body": None if body is None else json.dumps(body),
            "requestContext": {"stage": "$default", "http": {"method": method, "path": path}},
        }  # fmt: skip
        answer = function.handler(event, CONTEXT)
        text = json.dumps(answer)
        holders = function is lease and owner == "alice" and answer["statusCode"] < 300
        if not holders:
            self.answers.append(text)
        return json.loads(answer.get("body") or "null")

    def deliver(self, function: Any, queue_url: str) -> None:
        """Gives a function all messages of its queue."""
        sqs = aws.client("sqs")
        while found := sqs.receive_message(QueueUrl=queue_url, MaxNumberOfMessages=10).get("Messages", []):
            records = [
                {"messageId": one["MessageId"], "receiptHandle": one["ReceiptHandle"], "body": one["Body"],
                 "attributes": {"ApproximateReceiveCount": "1"}}
                for one in found
            ]  # fmt: skip
            function.handler({"Records": records}, CONTEXT)
            for one in found:
                sqs.delete_message(QueueUrl=queue_url, ReceiptHandle=one["ReceiptHandle"])

    def index(self) -> None:
        """Brings every row into Redis, as the table's stream does; one record cannot be read."""
        rows = [to_item(record).serialize() for record in ProxyTable(self.known.proxies_table).scan()]
        images = [{name: value for name, value in row.items() if value is not None} for row in rows]
        images.append({"proxy_id": {"S": "x"}, "pw": {"S": CANARY}})
        records = [
            {"eventName": "MODIFY", "dynamodb": {"NewImage": image, "SequenceNumber": str(number)}}
            for number, image in enumerate(images, 1)
        ]
        assert index_pool.handler({"Records": records}, CONTEXT) == {"batchItemFailures": []}


@contextmanager
def served(behaviours: dict[str, Behaviour]) -> Iterator[dict[str, int]]:
    """Servers on loopback in a thread of their own; the port of each."""
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
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    if rest:
        await asyncio.wait(rest, timeout=10)


@pytest.fixture
def world(aws_endpoint: str, valkey_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A deployment with a judge and two proxies that ask for a password; one of them knows another one."""
    prefix = f"c{uuid4().hex[:8]}-"
    tables, sqs = create_tables(prefix), aws.client("sqs")
    aws.client("s3").create_bucket(Bucket=prefix + "bodies")
    servers = {"judge": judge_behaviour, "good": asks_for(CANARY), "refusing": asks_for("another")}
    with served(servers) as ports:
        known = Settings(
            sources_table=tables["SourcesTable"], proxies_table=tables["ProxiesTable"],
            checks_table=tables["ChecksTable"], leases_table=tables["LeasesTable"], state_table=tables["StateTable"],
            scrape_queue_url=sqs.create_queue(QueueName=prefix + "scrape")["QueueUrl"],
            validate_queue_url=sqs.create_queue(QueueName=prefix + "validate")["QueueUrl"],
            judge_url=f"http://127.0.0.1:{ports['judge']}/",
            judge_secret_arn=aws.client("secretsmanager").create_secret(Name=prefix, SecretString="secret")["ARN"],
            event_bus=aws.client("events").create_event_bus(Name=prefix + "bus")["EventBusArn"].rpartition("/")[2],
            bodies_bucket=prefix + "bodies", redis_url=valkey_url, pool=prefix[:-1], allow_loopback=True, check_stage_seconds=10, check_total_seconds=20,
        )  # fmt: skip
        for name, value in environment(known).items():
            monkeypatch.setenv(name, value)
        _forget()
        found = World(known, ports)
        monkeypatch.setattr(log.registered_handler, "stream", found.said)
        monkeypatch.setattr(BaseClient, "_make_api_call", _recording(found, BaseClient._make_api_call))
        yield found
        _forget()


def _forget() -> None:
    for cached in CACHES:
        cached.cache_clear()
    for handler in HANDLERS:
        vars(handler).pop("_made", None)


def _recording(world: World, original: Callable[..., Any]) -> Callable[..., Any]:
    holds_credentials = (world.known.sources_table, world.known.proxies_table)

    def record(client: Any, operation: str, arguments: dict[str, Any]) -> Any:
        text = f"{operation} {json.dumps(arguments, default=str)}"
        if not any(table in text for table in holds_credentials):
            world.sent.append(text)
        return original(client, operation, arguments)

    return record


def test_a_password_leaves_by_its_holders_lease_answer_alone(
    world: World, capsys: pytest.CaptureFixture[str], clock: Clock
) -> None:
    """I19, inputs 15 and 89, case 36: in no log line, metric, message, event, result, ledger row, error or list."""
    good = f"127.0.0.1:{world.ports['good']}"
    lines = [
        f"user:{CANARY}@{good}",
        f"user:{CANARY}@127.0.0.1:{world.ports['refusing']}",
        f"user:{CANARY}@127.0.0.1:9",  # nobody there
        f"user:{CANARY}@10.0.0.1:80",  # not public
        f"http://user:{CANARY}@exa mple:80\x1b[31m",  # malformed
    ]
    world.ask(manage, "POST /sources", {"id": "list", "inline": "\n".join(lines)})
    world.ask(manage, "POST /sources", {"url": f"https://user:{CANARY}@a.example/list"})
    world.ask(manage, "POST /sources", {"inline": CANARY, "parser": CANARY, "tags": [CANARY + "!"], "kind": CANARY})
    world.ask(manage, "POST /proxies", {"lines": f"http://user:{CANARY}@exa mple:80"})
    world.ask(manage, "POST /sources/{id}/scrape", name="list")
    world.deliver(scrape_source, world.known.scrape_queue_url)
    world.deliver(validate_proxy, world.known.validate_queue_url)
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
    journal = cache_of(world.known).command("XRANGE", cache_of(world.known).keys.journal, "-", "+")
    expire_leases.handler({}, CONTEXT)
    listed = world.ask(manage, "GET /proxies")["proxies"]
    for proxy in listed:
        world.ask(manage, "GET /proxies/{id}", name=proxy["id"])
    for route in ("GET /sources", "GET /stats/pool", "GET /settings"):
        world.ask(manage, route)
    world.ask(manage, "GET /tasks/{id}", name="run")

    assert held["proxy_url"] == short["proxy_url"] == f"http://user:{CANARY}@{good}"
    assert sorted(proxy["status"] for proxy in listed) == ["active", "dead", "dead"]
    assert {proxy["reason"] for proxy in listed} >= {"", "credentials_refused"}
    metrics = capsys.readouterr()
    heard = {
        "log": world.said.getvalue(),
        "metrics": metrics.out + metrics.err,
        "messages, events, results, ledger": "\n".join(world.sent),
        "journal": json.dumps(journal),
        "answers": "\n".join(world.answers),
    }
    for place, text in heard.items():
        assert text, place
        assert CANARY not in text, place
