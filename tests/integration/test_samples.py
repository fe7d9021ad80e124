"""Every sample in events/ is given to its function: the real handler, on the emulated AWS and a real Valkey.

The environment is the template's, each variable from the settings; a sample without a line in SEEN fails.
"""

from __future__ import annotations

import importlib.util
import io
import json
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from botocore.client import BaseClient
from proxypool import aws, clock, settings
from proxypool.checks.validate import Outcome
from proxypool.leases.build import bridge_of, cache_of
from proxypool.manage.routes import manager
from proxypool.manage.service import TASKS
from proxypool.proxies.proxy import Status
from proxypool.proxies.record import ProxyRecord
from proxypool.proxies.table import ProxyTable, from_image, to_item
from proxypool.settings import Settings
from proxypool.sources.api import from_request
from proxypool.sources.table import SourceTable
from proxypool.state import State
from proxypool.table import bind
from proxypool.tasks import last_name, reason_name
from proxypool.telemetry import log

from tests.support.bus import Ear
from tests.support.permissions import Permission, allowed, needed
from tests.support.servers import ROOT, create_tables

pytestmark = pytest.mark.xdist_group("samples")

SAMPLES = sorted(path.stem for path in (ROOT / "events").glob("*.json"))
CONTEXT = SimpleNamespace(aws_request_id="run-1", get_remaining_time_in_millis=lambda: 60_000)


def sample(function: str) -> dict[str, Any]:
    event: dict[str, Any] = json.loads((ROOT / "events" / f"{function}.json").read_text())
    return event


def policy(function: str) -> set[Permission]:
    return allowed(f"{function.title().replace('_', '')}Function")


def sampled_proxy() -> ProxyRecord:
    """The proxy that the samples speak of."""
    return from_image(sample("index_pool")["Records"][0]["dynamodb"]["NewImage"])


@dataclass(frozen=True, slots=True)
class Deployment:
    """A pool in this process: one source `demo`, the sampled proxy, ready and due, and the functions' environment."""

    settings: Settings
    ear: Ear

    @property
    def proxy(self) -> ProxyRecord:
        """The sampled proxy's row."""
        found = ProxyTable(self.settings.proxies_table).get(sampled_proxy().id)
        assert found is not None
        return found

    def sent(self, queue_url: str) -> list[dict[str, Any]]:
        """Bodies of what lay in a queue; they are taken out."""
        sqs = aws.client("sqs")
        found = sqs.receive_message(QueueUrl=queue_url, MaxNumberOfMessages=10).get("Messages", [])
        for message in found:
            sqs.delete_message(QueueUrl=queue_url, ReceiptHandle=message["ReceiptHandle"])
        return [json.loads(message["Body"]) for message in found]

    def last(self, task: str) -> dict[str, Any]:
        """What the last run of a task left."""
        run: dict[str, Any] = State(self.settings.state_table).get(last_name(task))
        return run


def load(function: str) -> ModuleType:
    """The function's module, fresh, as a new environment of Lambda has it."""
    spec = importlib.util.spec_from_file_location(f"sampled_{function}", ROOT / "functions" / function / "app.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def deployment(aws_endpoint: str, valkey_url: str) -> Iterator[Deployment]:
    """All that the template makes for the functions, once for all samples: none depends on what another did."""
    aws.client.cache_clear()
    name = f"sa{uuid.uuid4().hex[:8]}"
    tables, sqs = create_tables(f"{name}-"), aws.client("sqs")
    aws.client("events").create_event_bus(Name=f"{name}-bus")
    aws.client("s3").create_bucket(Bucket=name)
    known = Settings(
        sources_table=tables["SourcesTable"], proxies_table=tables["ProxiesTable"], checks_table=tables["ChecksTable"],
        leases_table=tables["LeasesTable"], state_table=tables["StateTable"], pool=name, redis_url=valkey_url,
        scrape_queue_url=sqs.create_queue(QueueName=f"{name}-scrape")["QueueUrl"],
        validate_queue_url=sqs.create_queue(QueueName=f"{name}-validate")["QueueUrl"],
        event_bus=f"{name}-bus", bodies_bucket=name, expire_retry_seconds=0,
        judge_secret_arn=aws.client("secretsmanager").create_secret(Name=name, SecretString="k" * 64)["ARN"],
        judge_url="http://198.51.100.1/",  # an address of no network: refused before a packet leaves
    )  # fmt: skip
    source = from_request({"id": "demo", "inline": "8.8.8.8:80\n8.8.4.4:80"}, settings=known, now=clock.now())
    SourceTable(known.sources_table).put_new(source)
    item = to_item(replace(sampled_proxy(), last_checked_at=clock.now()))
    bind(type(item), known.proxies_table)
    item.save()
    bridge_of(known).run("first", until=float("inf"))
    with pytest.MonkeyPatch.context() as environment:
        for field in fields(Settings):
            value = getattr(known, field.name)
            environment.setenv(field.name.upper(), str(value).lower() if isinstance(value, bool) else str(value))
        _forget_settings()
        yield Deployment(known, Ear.on(known.event_bus, aws.client, f"{name}-ear"))
    _forget_settings()


def _forget_settings() -> None:
    settings.settings.cache_clear()
    manager.cache_clear()


@pytest.fixture
def log_lines(monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[dict[str, Any]]]:
    """What the functions logged."""
    stream = io.StringIO()
    monkeypatch.setattr(log.registered_handler, "stream", stream)
    return lambda: [json.loads(line) for line in stream.getvalue().splitlines()]


@pytest.fixture
def calls(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> Callable[[], set[Permission]]:
    """What the calls of AWS that were made by now need."""
    made: list[tuple[str, str, dict[str, Any]]] = []
    call = BaseClient._make_api_call

    def recorded(client: Any, operation: str, asked: dict[str, Any]) -> Any:
        made.append((client.meta.service_model.service_name, operation, asked))
        return call(client, operation, asked)

    monkeypatch.setattr(BaseClient, "_make_api_call", recorded)
    return lambda: {one for each in made for one in needed(deployment.settings, *each)}


def scraped(pool: Deployment, answer: Any) -> None:
    assert answer == {"batchItemFailures": []}
    assert pool.last("scrape_source")["counts"]["count_new"] == 2
    assert len(pool.sent(pool.settings.validate_queue_url)) == 2
    assert [told["source_id"] for told in pool.ear.heard("proxy.new_batch")] == ["demo"]


def enqueued(pool: Deployment, answer: Any) -> None:
    assert answer["count_enqueued"] == 1
    assert [message["source_id"] for message in pool.sent(pool.settings.scrape_queue_url)] == ["demo"]


def swept(pool: Deployment, answer: Any) -> None:
    assert answer["count"] == 1
    (message,) = pool.sent(pool.settings.validate_queue_url)
    assert message["proxy_id"] == sampled_proxy().id


def left_alone(pool: Deployment, answer: Any) -> None:
    """The judge cannot be reached: claimed, given back, told."""
    assert answer == {"batchItemFailures": []}
    assert pool.last("validate_proxy")["counts"] == {"count_superseded": 0, "count_inconclusive": 1}
    assert (pool.proxy.status, pool.proxy.claim, pool.proxy.check) == (Status.ACTIVE, 0, sampled_proxy().check)
    assert pool.ear.heard("judge.down")


def indexed(pool: Deployment, answer: Any) -> None:
    assert answer == {"batchItemFailures": []}
    cache = cache_of(pool.settings)
    assert cache.command("HGET", f"{cache.keys.tag}:p:{sampled_proxy().id}", "v") == str(sampled_proxy().version)


def bridged(pool: Deployment, answer: Any) -> None:
    assert answer["ready"] + answer["leases_open"] == 1
    assert (answer["journal_length"], answer["count_rebuilt"]) == (0, 0)


def granted(pool: Deployment, answer: Any) -> None:
    assert answer["statusCode"] == 201
    assert json.loads(answer["body"])["proxy_id"] == sampled_proxy().id


def looked_at(pool: Deployment, answer: Any) -> None:
    assert answer["statusCode"] == 200
    assert json.loads(answer["body"])["proxies"]["active"] == 1


def judged(pool: Deployment, answer: Any) -> None:
    assert answer["statusCode"] == 200
    assert json.loads(json.loads(answer["body"])["payload"])["peer"] == "192.0.2.7"


def nothing_to_prune(pool: Deployment, answer: Any) -> None:
    assert answer == {"count": 0}
    assert pool.proxy.status is Status.ACTIVE


SEEN: dict[str, Callable[[Deployment, Any], None]] = {
    "scrape_all": enqueued,
    "scrape_source": scraped,
    "revalidate_sweep": swept,
    "validate_proxy": left_alone,
    "prune_dead_proxies": nothing_to_prune,
    "prune_old_checks": nothing_to_prune,
    "index_pool": indexed,
    "expire_leases": bridged,
    "lease": granted,
    "manage": looked_at,
    "judge": judged,
}


@pytest.mark.parametrize("function", SAMPLES)
def test_a_sample_is_taken_by_its_function(
    deployment: Deployment, function: str, log_lines: Any, calls: Callable[[], set[Permission]]
) -> None:
    """A task logs its start and its end with duration_ms, and its run is kept; what it calls of AWS its policy allows."""
    answer = load(function).handler(sample(function), CONTEXT)

    assert calls() - policy(function) == set()
    SEEN[function](deployment, answer)
    lines = log_lines()
    assert {line["message"] for line in lines if line["level"] == "ERROR"} <= {"judge is down"}
    if function in TASKS:
        run = deployment.last(function)
        assert (run["id"], run["status"]) == ("run-1", "done")
        assert [line["run_id"] for line in lines if line["message"] == f"{function} started"] == ["run-1"]
        (done,) = (line for line in lines if line["message"] == f"{function} done")
        assert {"duration_ms": run["duration_ms"], **run["counts"]}.items() <= done.items()


@pytest.mark.parametrize("function", ["scrape_source", "validate_proxy"])
def test_a_message_from_the_future_fails_alone_with_its_reason(
    deployment: Deployment, function: str, calls: Callable[[], set[Permission]]
) -> None:
    """Inputs 73, 74 and 82: it is reported as failed, comes again, and its reason is kept as long as a dead letter is."""
    event = sample(function)
    future = {**event["Records"][0], "messageId": f"future-{function}", "body": '{"v": 2}'}

    answer = load(function).handler({"Records": [future]}, CONTEXT)

    assert answer == {"batchItemFailures": [{"itemIdentifier": future["messageId"]}]}
    assert calls() - policy(function) == set()
    kept = State(deployment.settings.state_table).get(reason_name(future["messageId"]))
    assert (kept["reason"], kept["task"]) == ("unknown version", function)


@pytest.mark.parametrize("function", ["scrape_source", "validate_proxy", "index_pool"])
def test_no_records_are_no_failure_and_an_unknown_event_is_one(deployment: Deployment, function: str) -> None:
    """Input 73: Lambda retries what raises; it does not retry what nothing failed in."""
    app = load(function)

    assert app.handler({"Records": []}, CONTEXT) == {"batchItemFailures": []}
    with pytest.raises(KeyError):
        app.handler({"something": "else"}, CONTEXT)


def test_what_was_not_checked_in_time_comes_again_once_and_is_then_an_error(
    deployment: Deployment, log_lines: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Input 73, and the seeds' last line, `ERROR validate_proxy proxy_id=ghi error="Pipeline timeout after 120s"`."""
    app, (record,) = load("validate_proxy"), sample("validate_proxy")["Records"]
    monkeypatch.setattr(app, "_run", lambda this, messages, context: Outcome(unfinished=set(messages)))

    for attempt in ("1", "2"):
        event = {"Records": [{**record, "attributes": {"ApproximateReceiveCount": attempt}}]}
        assert app.handler(event, CONTEXT) == {"batchItemFailures": [{"itemIdentifier": record["messageId"]}]}

    told = [line for line in log_lines() if line["message"] == "validate_proxy failed"]
    assert [(line["level"], line["retrying"], line["attempt"]) for line in told] == [
        ("WARNING", True, 1),
        ("ERROR", False, 2),
    ]
    assert {line["proxy_id"] for line in told} == {sampled_proxy().id}
    assert {line["error"] for line in told} == {"Pipeline timeout after 40s"}
