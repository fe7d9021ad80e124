"""Every sample in events/ is given to its function: the real handler, on the emulated AWS and a real Valkey.

The environment is the template's, each variable from the settings; a sample without a line in SEEN fails.
"""

from __future__ import annotations

import io
import json
from asyncio import iscoroutine
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.client import BaseClient
from proxypool.aws.state import State
from proxypool.checks.batch import BatchResult
from proxypool.checks.validate import Validator
from proxypool.config.settings import GIVEN, settings
from proxypool.leases.build import cache_of
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
    """The variables that the template gives this function, and no other."""
    own = f"{function.title().replace('_', '')}Function"
    given = variables(own)
    for name in {name.upper() for name in GIVEN} - given:
        monkeypatch.delenv(name)
    settings.cache_clear()
    yield
    settings.cache_clear()


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
    assert [told["source_id"] for told in pool.events.received("proxy.new_batch")] == ["demo"]


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
    assert pool.events.received("judge.down")


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


def known_to_nobody(pool: Deployment, answer: Any) -> None:
    """The job is gone by the time that its message comes: there is nothing to do."""
    assert answer == {"batchItemFailures": []}
    assert pool.last("fetch_page")["counts"] == {"count_repeated": 1}


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
    "fetch_page": known_to_nobody,
}


@pytest.mark.usefixtures("environment")
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


@pytest.mark.parametrize("function", ["scrape_source", "validate_proxy", "fetch_page"])
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


@pytest.mark.parametrize("function", ["scrape_source", "validate_proxy", "fetch_page"])
def test_an_unexpected_error_is_counted_once_for_each_message_that_it_failed(
    deployment: Deployment, function: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Input 73: the run that it ended is the same failure."""
    app, event = load(function), sample(function)

    def broken(*args: Any, **named: Any) -> None:
        for one in args:
            if iscoroutine(one):
                one.close()
        raise RuntimeError("it broke")

    if function == "scrape_source":
        monkeypatch.setattr(Scraper, "scrape", broken)
    else:
        monkeypatch.setattr("proxypool.network.loop.run", broken)

    answer = app.handler(event, CONTEXT)

    told = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith('{"_aws"')]
    assert answer == {"batchItemFailures": [{"itemIdentifier": event["Records"][0]["messageId"]}]}
    assert [one["TasksFailed"] for one in told if "TasksFailed" in one] == [[1.0]]


@pytest.mark.parametrize("function", ["scrape_source", "validate_proxy", "fetch_page", "index_pool"])
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
    monkeypatch.setattr(Validator, "validate", lambda this, messages, *, seconds: BatchResult(unfinished=set(messages)))

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


def test_a_batch_that_fails_whole_is_reported_whole(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    """Input 73: each message by its own id, so that each has its own tries; the handler itself does not raise."""
    app, (record,) = load("validate_proxy"), sample("validate_proxy")["Records"]
    records = [{**record, "messageId": name} for name in ("first", "second")]

    def broken(*_: Any, **__: Any) -> BatchResult:
        raise RuntimeError("ours")

    monkeypatch.setattr(Validator, "validate", broken)

    assert app.handler({"Records": records}, CONTEXT) == {
        "batchItemFailures": [{"itemIdentifier": "first"}, {"itemIdentifier": "second"}]
    }
    assert {
        State(deployment.settings.state_table).get(reason_name(name))["reason"] for name in ("first", "second")
    } == {"RuntimeError"}
