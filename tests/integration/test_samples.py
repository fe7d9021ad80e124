"""Each sample in events/ is handled by its function, on the emulated AWS and Valkey.

The environment has the variables of the template; a sample without an entry in EXPECTATIONS fails.
"""

from __future__ import annotations

import io
import json
from asyncio import iscoroutine
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.client import BaseClient
from proxypool.aws.state import StateTable
from proxypool.checks.batch import BatchResult
from proxypool.checks.validate import Validator
from proxypool.config.settings import ENVIRONMENT_FIELDS, settings
from proxypool.leases.build import build_cache
from proxypool.manage.stats import TASKS
from proxypool.proxies.proxy import Status
from proxypool.sources.scrape.scraper import Scraper
from proxypool.tasks.retry import reason_name
from proxypool.telemetry import log

from tests.support.deployment import CONTEXT, Deployment, load, sample, sampled_proxy
from tests.support.permissions import Permission, allowed, needed, variables
from tests.support.servers import ROOT

pytestmark = pytest.mark.xdist_group("samples")

SAMPLES = sorted(path.stem for path in (ROOT / "events").glob("*.json"))


def policy(function: str) -> set[Permission]:
    return allowed(f"{function.title().replace('_', '')}Function")


@pytest.fixture
def environment(deployment: Deployment, function: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Only the variables that the template sets for this function."""
    resource = f"{function.title().replace('_', '')}Function"
    names = variables(resource)
    for name in {name.upper() for name in ENVIRONMENT_FIELDS} - names:
        monkeypatch.delenv(name)
    settings.cache_clear()
    yield
    settings.cache_clear()


@pytest.fixture
def log_lines(monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[dict[str, Any]]]:
    """Reads the log lines."""
    stream = io.StringIO()
    monkeypatch.setattr(log.registered_handler, "stream", stream)
    return lambda: [json.loads(line) for line in stream.getvalue().splitlines()]


@pytest.fixture
def calls(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> Callable[[], set[Permission]]:
    """The permissions that the AWS calls so far require."""
    recorded_calls: list[tuple[str, str, dict[str, Any]]] = []
    call = BaseClient._make_api_call

    def recorded(client: Any, operation: str, arguments: dict[str, Any]) -> Any:
        recorded_calls.append((client.meta.service_model.service_name, operation, arguments))
        return call(client, operation, arguments)

    monkeypatch.setattr(BaseClient, "_make_api_call", recorded)
    return lambda: {permission for made in recorded_calls for permission in needed(deployment.settings, *made)}


def expect_scraped(pool: Deployment, answer: Any) -> None:
    assert answer == {"batchItemFailures": []}
    assert pool.last("scrape_source")["counts"]["count_new"] == 2
    assert len(pool.sent(pool.settings.validate_queue_url)) == 2
    assert [detail["source_id"] for detail in pool.events.received("proxy.new_batch")] == ["demo"]


def expect_enqueued(pool: Deployment, answer: Any) -> None:
    assert answer["count_enqueued"] == 1
    assert [message["source_id"] for message in pool.sent(pool.settings.scrape_queue_url)] == ["demo"]


def expect_swept(pool: Deployment, answer: Any) -> None:
    assert answer["count"] == 1
    (message,) = pool.sent(pool.settings.validate_queue_url)
    assert message["proxy_id"] == sampled_proxy().id


def expect_inconclusive(pool: Deployment, answer: Any) -> None:
    """The judge cannot be reached: the claim is released and an event published."""
    assert answer == {"batchItemFailures": []}
    assert pool.last("validate_proxy")["counts"] == {"count_superseded": 0, "count_inconclusive": 1}
    assert (pool.proxy.status, pool.proxy.claim, pool.proxy.check) == (Status.ACTIVE, 0, sampled_proxy().check)
    assert pool.events.received("judge.down")


def expect_indexed(pool: Deployment, answer: Any) -> None:
    assert answer == {"batchItemFailures": []}
    cache = build_cache(pool.settings)
    assert cache.command("HGET", f"{cache.keys.tag}:p:{sampled_proxy().id}", "v") == str(sampled_proxy().version)


def expect_bridged(pool: Deployment, answer: Any) -> None:
    assert answer["ready"] + answer["leases_open"] == 1
    assert (answer["journal_length"], answer["count_rebuilt"]) == (0, 0)


def expect_lease(pool: Deployment, answer: Any) -> None:
    assert answer["statusCode"] == 201
    assert json.loads(answer["body"])["proxy_id"] == sampled_proxy().id


def expect_stats(pool: Deployment, answer: Any) -> None:
    assert answer["statusCode"] == 200
    assert json.loads(answer["body"])["proxies"]["active"] == 1


def expect_judge_answer(pool: Deployment, answer: Any) -> None:
    assert answer["statusCode"] == 200
    assert json.loads(json.loads(answer["body"])["payload"])["peer"] == "192.0.2.7"


def expect_nothing_pruned(pool: Deployment, answer: Any) -> None:
    assert answer == {"count": 0}
    assert pool.proxy.status is Status.ACTIVE


def expect_unknown_job(pool: Deployment, answer: Any) -> None:
    """The job no longer exists: nothing is done."""
    assert answer == {"batchItemFailures": []}
    assert pool.last("fetch_page")["counts"] == {"count_repeated": 1}


EXPECTATIONS: dict[str, Callable[[Deployment, Any], None]] = {
    "scrape_all": expect_enqueued,
    "scrape_source": expect_scraped,
    "revalidate_sweep": expect_swept,
    "validate_proxy": expect_inconclusive,
    "prune_dead_proxies": expect_nothing_pruned,
    "prune_old_checks": expect_nothing_pruned,
    "index_pool": expect_indexed,
    "expire_leases": expect_bridged,
    "lease": expect_lease,
    "manage": expect_stats,
    "judge": expect_judge_answer,
    "fetch_page": expect_unknown_job,
}


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize("function", SAMPLES)
def test_a_function_handles_its_sample(
    deployment: Deployment, function: str, log_lines: Any, calls: Callable[[], set[Permission]]
) -> None:
    """A task logs start and end with duration_ms and stores its result; its policy allows its AWS calls."""
    answer = load(function).handler(sample(function), CONTEXT)

    assert calls() - policy(function) == set()
    EXPECTATIONS[function](deployment, answer)
    lines = log_lines()
    assert {line["message"] for line in lines if line["level"] == "ERROR"} <= {"judge is down"}
    if function in TASKS:
        run = deployment.last(function)
        assert (run["id"], run["status"]) == ("run-1", "done")
        assert [line["run_id"] for line in lines if line["message"] == f"{function} started"] == ["run-1"]
        (done,) = (line for line in lines if line["message"] == f"{function} done")
        assert {"duration_ms": run["duration_ms"], **run["counts"]}.items() <= done.items()


@pytest.mark.parametrize("function", ["scrape_source", "validate_proxy", "fetch_page"])
def test_a_message_of_a_newer_version_fails_alone_with_its_reason(
    deployment: Deployment, function: str, calls: Callable[[], set[Permission]]
) -> None:
    """Inputs 73, 74 and 82: it is reported as failed, and its reason is stored as long as a dead letter."""
    event = sample(function)
    future = {**event["Records"][0], "messageId": f"future-{function}", "body": '{"v": 2}'}

    answer = load(function).handler({"Records": [future]}, CONTEXT)

    assert answer == {"batchItemFailures": [{"itemIdentifier": future["messageId"]}]}
    assert calls() - policy(function) == set()
    failure = StateTable(deployment.settings.state_table).get(reason_name(future["messageId"]))
    assert (failure["reason"], failure["task"]) == ("unknown version", function)


@pytest.mark.parametrize("function", ["scrape_source", "validate_proxy", "fetch_page"])
def test_an_unexpected_error_is_counted_once_per_failed_message(
    deployment: Deployment, function: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Input 73: the failed run is not counted in addition."""
    app, event = load(function), sample(function)

    def broken(*args: Any, **named: Any) -> None:
        for argument in args:
            if iscoroutine(argument):
                argument.close()
        raise RuntimeError("it broke")

    if function == "scrape_source":
        monkeypatch.setattr(Scraper, "scrape", broken)
    else:
        monkeypatch.setattr("proxypool.network.loop.run", broken)

    answer = app.handler(event, CONTEXT)

    metrics = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith('{"_aws"')]
    assert answer == {"batchItemFailures": [{"itemIdentifier": event["Records"][0]["messageId"]}]}
    assert [line["TasksFailed"] for line in metrics if "TasksFailed" in line] == [[1.0]]


@pytest.mark.parametrize("function", ["scrape_source", "validate_proxy", "fetch_page", "index_pool"])
def test_an_empty_batch_succeeds_and_an_unknown_event_fails(deployment: Deployment, function: str) -> None:
    """Input 73: Lambda retries an event that raises."""
    app = load(function)

    assert app.handler({"Records": []}, CONTEXT) == {"batchItemFailures": []}
    with pytest.raises(KeyError):
        app.handler({"something": "else"}, CONTEXT)


def test_an_unfinished_check_is_retried_once_and_then_logged_as_error(
    deployment: Deployment, log_lines: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Input 73, and the log line `ERROR validate_proxy proxy_id=ghi error="Pipeline timeout after 120s"`."""
    app, (record,) = load("validate_proxy"), sample("validate_proxy")["Records"]
    monkeypatch.setattr(Validator, "validate", lambda _, messages, *, seconds: BatchResult(unfinished=set(messages)))

    for attempt in ("1", "2"):
        event = {"Records": [{**record, "attributes": {"ApproximateReceiveCount": attempt}}]}
        assert app.handler(event, CONTEXT) == {"batchItemFailures": [{"itemIdentifier": record["messageId"]}]}

    lines = [line for line in log_lines() if line["message"] == "validate_proxy failed"]
    assert [(line["level"], line["retrying"], line["attempt"]) for line in lines] == [
        ("WARNING", True, 1),
        ("ERROR", False, 2),
    ]
    assert {line["proxy_id"] for line in lines} == {sampled_proxy().id}
    assert {line["error"] for line in lines} == {"Pipeline timeout after 40s"}


def test_all_messages_of_a_failed_batch_are_reported(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    """Input 73: each message by its id, so that each has its own retries; the handler does not raise."""
    app, (record,) = load("validate_proxy"), sample("validate_proxy")["Records"]
    records = [{**record, "messageId": name} for name in ("first", "second")]

    def broken(*_: Any, **__: Any) -> BatchResult:
        raise RuntimeError("it broke")

    monkeypatch.setattr(Validator, "validate", broken)

    assert app.handler({"Records": records}, CONTEXT) == {
        "batchItemFailures": [{"itemIdentifier": "first"}, {"itemIdentifier": "second"}]
    }
    assert {
        StateTable(deployment.settings.state_table).get(reason_name(name))["reason"] for name in ("first", "second")
    } == {"RuntimeError"}
