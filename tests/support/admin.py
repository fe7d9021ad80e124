"""The admin API with tables and queues of the emulated AWS; each response is validated against the OpenAPI document."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from proxypool import aws, clock
from proxypool.aws.state import StateTable
from proxypool.config.settings import Settings
from proxypool.proxies.proxy import Kind, Proxy, Status
from proxypool.proxies.record import CheckFacts
from proxypool.proxies.table import ProxyTable

from functions.manage import app
from tests.support.openapi import assert_documented

JSON = {"content-type": "application/json"}


@dataclass
class Admin:
    """The function `manage` with its own tables and queues; validates each response against the OpenAPI document."""

    settings: Settings
    proxies: ProxyTable
    state: StateTable
    calls: set[tuple[str, str]] = field(default_factory=set)

    def __call__(
        self, route: str, body: object = None, *, name: str = "", query: dict[str, str] | None = None, **parts: Any
    ) -> tuple[int, Any]:
        """Status and JSON of a request, e.g. "GET /proxies/{id}"; `parts` are further members of the event."""
        answer = self.raw(route, body, name=name, query=query, **parts)
        value = json.loads(answer.get("body") or "null")
        assert_documented(route, answer["statusCode"], value)
        return answer["statusCode"], value

    def raw(
        self, route: str, body: object = None, *, name: str = "", query: dict[str, str] | None = None, **parts: Any
    ) -> dict[str, Any]:
        """The response itself."""
        method, _, path = route.partition(" ")
        text = body if isinstance(body, str) else None if body is None else json.dumps(body)
        event = {
            "version": "2.0", "routeKey": route, "rawPath": path.replace("{id}", name), "headers": JSON,
            "queryStringParameters": query or {}, "body": text, "isBase64Encoded": False,
            "requestContext": {"stage": "$default", "http": {"method": method, "path": path}},
        }  # fmt: skip
        context = parts.pop("requestContext", {})
        event |= parts
        event["requestContext"] |= context
        return app.handler(event, None)

    def add(self, *proxies: Proxy) -> list[str]:
        """Adds unchecked proxies to the table; returns their ids."""
        done = self.proxies.upsert_many(proxies, source_id="list", kind=Kind.UNKNOWN, tags=frozenset(), now=clock.now())
        return [record.id for record in done.new]

    def check(self, proxy_id: str, **facts: Any) -> None:
        """Makes a proxy active with a passed check."""
        record = self.proxies.get(proxy_id)
        assert record
        assert record.next_check_at
        due = clock.epoch(record.next_check_at)
        claim = self.proxies.claim_many({proxy_id: due}, now=clock.now(), claim_seconds=60)[proxy_id]
        check = CheckFacts(passed=1.0, count=1, **facts)
        now = clock.now()
        self.proxies.record_many(
            [replace(record, status=Status.ACTIVE, check=check, last_checked_at=now, next_check_at=now, claim=claim)]
        )

    def messages(self, url: str) -> list[dict[str, Any]]:
        """All messages of a queue, which become invisible."""
        found: list[dict[str, Any]] = []
        while page := aws.client("sqs").receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", []):
            found += [json.loads(message["Body"]) for message in page]
        return found


def empty(settings: Settings) -> None:
    """Empties the tables and queues that the admin API uses."""
    dynamodb, sqs = aws.client("dynamodb"), aws.client("sqs")
    keys = {settings.sources_table: "source_id", settings.proxies_table: "proxy_id", settings.state_table: "name",
            settings.jobs_table: "job_id"}  # fmt: skip
    for table, key in keys.items():
        for item in dynamodb.scan(TableName=table)["Items"]:
            dynamodb.delete_item(TableName=table, Key={key: item[key]})
    for url in (settings.scrape_queue_url, settings.validate_queue_url, settings.fetch_queue_url):
        sqs.purge_queue(QueueUrl=url)


def actions(service: str, operation: str, arguments: dict[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
    """The permissions that a call requires, as (the resource's logical id, IAM action)."""
    if operation == "BatchExecuteStatement":
        for statement in arguments["Statements"]:
            verb, table = re.match(rf'(\w+)(?: INTO)? "{prefix}(\w+)"', statement["Statement"]).groups()  # type: ignore[union-attr]
            yield table, f"dynamodb:PartiQL{verb.capitalize()}"
        return
    tables = [arguments["TableName"]] if "TableName" in arguments else list(arguments.get("RequestItems", ()))
    url = arguments.get("QueueUrl", "")
    names = [table.removeprefix(prefix) for table in tables] or [url.rpartition("-")[2].capitalize() + "Queue"]
    verbs = {"SendMessageBatch": "SendMessage", "Invoke": "InvokeFunction"}
    for name in names:
        resource = {"lambda": "ExpireLeasesFunction", "s3": "BodiesBucket"}.get(service, name)
        yield resource, f"{service}:{verbs.get(operation, operation)}"
