"""The resources of a scrape on the emulated AWS, and its results."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from time import perf_counter
from typing import Any
from unittest.mock import patch
from uuid import uuid4

from botocore.client import BaseClient
from proxypool import aws, clock
from proxypool.aws.queues import ScrapeMessage, decode
from proxypool.aws.state import StateTable
from proxypool.config.settings import Settings
from proxypool.proxies.table import ProxyTable
from proxypool.sources.api import from_request
from proxypool.sources.record import Source
from proxypool.sources.schedule import Scheduler
from proxypool.sources.scrape.report import ScrapeResult
from proxypool.sources.scrape.scraper import Scraper
from proxypool.sources.table import SourceTable

from tests.support import servers


class Pool:
    """The resources of a scrape, and helpers to run it and to read its results."""

    def __init__(self, **overrides: Any) -> None:
        prefix = f"sc{uuid4().hex[:8]}-"
        tables = servers.create_tables(prefix)
        sqs = aws.client("sqs")
        aws.client("s3").create_bucket(Bucket=prefix + "bodies")
        aws.client("events").create_event_bus(Name=prefix + "bus")
        self.settings = Settings(
            sources_table=tables["SourcesTable"],
            proxies_table=tables["ProxiesTable"],
            state_table=tables["StateTable"],
            scrape_queue_url=sqs.create_queue(QueueName=prefix + "scrape")["QueueUrl"],
            validate_queue_url=sqs.create_queue(QueueName=prefix + "validate")["QueueUrl"],
            event_bus=prefix + "bus",
            bodies_bucket=prefix + "bodies",
            allow_loopback=True,
            allow_files=True,
            **overrides,
        )
        self.events_url = _subscribe(prefix)
        self.sources = SourceTable(self.settings.sources_table)
        self.proxies = ProxyTable(self.settings.proxies_table)
        self.state = StateTable(self.settings.state_table)
        self.scraper = Scraper(sources=self.sources, proxies=self.proxies, state=self.state, settings=self.settings)
        self.scheduler = Scheduler(self.sources, self.state, self.settings)

    def add(self, source_id: str = "list", **body: Any) -> str:
        """Registers a source."""
        made = from_request({"id": source_id, **body}, settings=self.settings, now=clock.now())
        assert self.sources.put_new(made)
        return source_id

    def source(self, source_id: str = "list") -> Source:
        """The stored source."""
        found = self.sources.get(source_id)
        assert found is not None
        return found

    def scrape(self, source_id: str = "list", *, days: float = 0) -> ScrapeResult:
        """One run, `days` from now, for a message of scrape_all."""
        return self.scraper.scrape(ScrapeMessage(source_id=source_id), clock.now() + timedelta(days=days))

    def scrape_all(self, source_id: str = "list") -> list[ScrapeResult]:
        """All runs until the end of the list: the first one, and those of its follow-up messages."""
        message: ScrapeMessage | None = ScrapeMessage(source_id=source_id)
        runs = []
        while message is not None:
            runs.append(self.scraper.scrape(message, clock.now()))
            message = next((decode(b, ScrapeMessage) for b in self.bodies(self.settings.scrape_queue_url)), None)
        return runs

    def bodies(self, url: str) -> list[str]:
        """The bodies of all messages of a queue, which are deleted."""
        sqs, found = aws.client("sqs"), list[str]()
        while messages := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", []):
            found += [message["Body"] for message in messages]
            entries = [{"Id": str(n), "ReceiptHandle": m["ReceiptHandle"]} for n, m in enumerate(messages)]
            sqs.delete_message_batch(QueueUrl=url, Entries=entries)
        return found

    def events(self) -> list[tuple[str, dict[str, Any]]]:
        """The events on the bus since the last call, as (type, detail)."""
        found = [json.loads(body) for body in self.bodies(self.events_url)]
        return [(event["detail-type"], event["detail"]) for event in found]


def _subscribe(prefix: str) -> str:
    """The URL of a new queue that receives all events of the bus."""
    sqs, events = aws.client("sqs"), aws.client("events")
    url = str(sqs.create_queue(QueueName=prefix + "events")["QueueUrl"])
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    pattern = json.dumps({"source": ["proxypool"]})
    events.put_rule(Name=prefix + "all", EventBusName=prefix + "bus", EventPattern=pattern)
    events.put_targets(Rule=prefix + "all", EventBusName=prefix + "bus", Targets=[{"Id": "q", "Arn": arn}])
    return url


def addresses(count: int, *, start: int = 0) -> str:
    """Lines with distinct public addresses, 20 of each /24, beginning with number `start`."""
    numbers = range(start, start + count)
    return "".join(f"20.{n // 5_120 % 256}.{n // 20 % 256}.{n % 20 + 1}:8080\n" for n in numbers)


@dataclass(slots=True)
class Calls:
    """Calls of AWS: items written and read, calls and seconds by operation."""

    written: int = 0
    read: int = 0
    calls: Counter[str] = field(default_factory=Counter)
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))

    def note(self, operation: str, request: dict[str, Any]) -> None:
        """Counts one call."""
        self.calls[operation] += 1
        if operation in ("PutItem", "UpdateItem", "DeleteItem"):
            self.written += 1
        elif operation == "BatchExecuteStatement":
            self.written += len(request["Statements"])
        elif operation == "BatchWriteItem":
            self.written += sum(map(len, request["RequestItems"].values()))
        elif operation == "BatchGetItem":
            self.read += sum(len(table["Keys"]) for table in request["RequestItems"].values())


@contextmanager
def counted_calls() -> Iterator[Calls]:
    """Counts the calls of AWS in this process, by boto3 and pynamodb, while the block runs."""
    calls, make = Calls(), BaseClient._make_api_call

    def counting(client: Any, operation: str, request: dict[str, Any]) -> Any:
        calls.note(operation, request)
        started = perf_counter()
        try:
            return make(client, operation, request)
        finally:
            calls.seconds[operation] += perf_counter() - started

    with patch.object(BaseClient, "_make_api_call", counting):
        yield calls


@dataclass(slots=True)
class ListServer:
    """A list at a URL on loopback: its response, and the headers of its requests."""

    url: str = ""
    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    asked: list[dict[str, str]] = field(default_factory=list)


@contextmanager
def list_server() -> Iterator[ListServer]:
    """Serves a list; the test can change the response."""
    there = ListServer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            there.asked.append({name.lower(): value for name, value in self.headers.items()} | {"path": self.path})
            self.send_response(there.status)
            for name, value in there.headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(there.body)))
            self.end_headers()
            self.wfile.write(there.body)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        there.url = f"http://127.0.0.1:{server.server_address[1]}/list"
        yield there
        server.shutdown()
