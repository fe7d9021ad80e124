"""Scraping on the emulated AWS: rows, messages, failures and retries."""

from __future__ import annotations

import importlib.util
import io
import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from proxypool import aws, clock
from proxypool.aws.queues import ScrapeMessage, ValidateMessage, decode, encode
from proxypool.aws.state import SETTINGS
from proxypool.config import settings
from proxypool.errors import SourceError
from proxypool.proxies.proxy import Status
from proxypool.sources.scrape.report import NO_ROWS
from proxypool.tasks import runs
from proxypool.tasks.retry import reason_name
from proxypool.telemetry import log

from tests.support import servers
from tests.support.scrape import Pool, addresses

PUBLIC = addresses(1000)


@pytest.fixture
def pool(aws_endpoint: str) -> Pool:
    """A new pool."""
    aws.client.cache_clear()
    return Pool()


def test_a_list_becomes_rows_and_messages_and_its_second_scrape_writes_nothing(pool: Pool) -> None:
    """The seeds' steps; I8; case 16 (rows that are not public are counted; loopback is allowed here)."""
    source_id = pool.add(inline=PUBLIC + "10.0.0.1:80\nnonsense\n", kind="datacenter", tags=["eu"])

    first = pool.scraper.scrape(ScrapeMessage(source_id=source_id), clock.now())
    messages = [decode(body, ValidateMessage) for body in pool.bodies(pool.settings.validate_queue_url)]
    versions = {record.id: record.version for record in pool.proxies.scan()}
    second = pool.scraper.scrape(ScrapeMessage(source_id=source_id), clock.now())

    assert (first.new, first.updated, dict(first.rejected)) == (1000, 0, {"private": 1, "no_address": 1})
    records = list(pool.proxies.scan())
    assert {(record.id, clock.epoch(record.next_check_at or clock.now())) for record in records} == {
        (message.proxy_id, message.next_check_at) for message in messages
    }
    assert {(record.status, record.kind, record.tags) for record in records} == {
        (Status.UNCHECKED, "datacenter", frozenset({"eu"}))
    }
    assert (second.new, second.updated, second.skipped) == (0, 0, "not_modified")
    assert {record.id: record.version for record in records} == versions
    assert pool.bodies(pool.settings.validate_queue_url) == []
    [(kind, detail)] = pool.events()
    assert (kind, detail["source_id"], detail["count"]) == ("proxy.new_batch", source_id, 1000)
    source = pool.sources.get(source_id)
    assert source is not None
    assert (source.rows, source.valid, source.health) == (1002, 1000, "healthy")
    assert source.last_scraped_at is not None


def test_the_row_of_a_gateway_has_the_slots_of_its_source(pool: Pool) -> None:
    """A provider's gateway: one row per URL template; an existing row is not changed."""
    gateway = "http://u-{session}:p@8.8.8.8:7777\n"
    pool.scrape(pool.add("gateway", inline=gateway, slots=50))
    (record,) = pool.proxies.scan()
    pool.scrape(pool.add("others", inline=gateway + "8.8.4.4:80\n"))

    assert record.slots == 50
    assert {row.proxy.host: row.slots for row in pool.proxies.scan()} == {"8.8.8.8": 50, "8.8.4.4": 1}


def test_an_empty_list_removes_nothing(pool: Pool, tmp_path: Path) -> None:
    """Input 24: a challenge page is reported on the source; the rows remain."""
    file = tmp_path / "list.txt"
    file.write_text("8.8.8.8:80\n")
    source_id = pool.add(path=str(file))
    pool.scrape()
    file.write_text("<html><body>Are you human?</body></html>")

    pool.scrape()

    source = pool.sources.get(source_id)
    assert source is not None
    assert (source.enabled, source.last_error, source.consecutive_failures) == (True, NO_ROWS, 1)
    assert len(list(pool.proxies.scan())) == 1


def test_scrape_all_enqueues_due_sources_and_reports_staleness_once(pool: Pool) -> None:
    """The seeds' scrape_all; source.stale once per staleness."""
    now = clock.now()
    pool.add("due", inline="x")
    pool.add("fresh", inline="x")
    pool.add("off", inline="x", enabled=False)
    pool.sources.update("fresh", last_scraped_at=now, last_success_at=now)
    pool.sources.update("due", created_at=now - timedelta(days=365))

    counts = [pool.scheduler.scrape_all(now) for _ in range(2)]

    assert counts[0] == {"count_sources": 2, "count_enqueued": 1, "count_stale": 1}
    assert counts[1]["count_stale"] == 0
    sent = pool.bodies(pool.settings.scrape_queue_url)
    assert [decode(body, ScrapeMessage).source_id for body in sent] == ["due", "due"]
    assert [kind for kind, _ in pool.events()] == ["source.stale"]


def test_a_paused_pool_scrapes_nothing(pool: Pool) -> None:
    """Input 91."""
    source_id = pool.add(inline=PUBLIC)
    pool.state.put(SETTINGS, {"paused": True})

    assert pool.scheduler.scrape_all(clock.now())["count_enqueued"] == 0
    assert pool.scraper.scrape(ScrapeMessage(source_id=source_id), clock.now()).skipped == "paused"


@pytest.fixture
def app(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The module of the function, with the environment of the pool."""
    for name in ("sources_table", "proxies_table", "state_table", "scrape_queue_url", "validate_queue_url",
                 "event_bus", "bodies_bucket"):  # fmt: skip
        monkeypatch.setenv(name.upper(), getattr(pool.settings, name))
    monkeypatch.setenv("OVERRIDES", "allow_loopback=true")
    settings.settings.cache_clear()
    yield _load("scrape_source")
    settings.settings.cache_clear()


def _load(function: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"app_{function}", servers.ROOT / "functions" / function / "app.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _record(message_id: str, body: str, attempt: int = 1) -> dict[str, Any]:
    attributes = {"ApproximateReceiveCount": str(attempt)}
    return {"messageId": message_id, "receiptHandle": message_id, "body": body, "attributes": attributes}


def _failed(answer: dict[str, Any]) -> list[str]:
    return [item["itemIdentifier"] for item in answer["batchItemFailures"]]


CONTEXT = SimpleNamespace(aws_request_id="run-1", get_remaining_time_in_millis=lambda: 60_000)


def test_a_poison_message_fails_alone_and_its_reason_is_stored(pool: Pool, app: ModuleType) -> None:
    """Inputs 73 and 74, I14."""
    source_id = pool.add(inline="8.8.8.8:80")
    good = encode(ScrapeMessage(source_id=source_id))

    answer = app.handler({"Records": [_record("bad", "{"), _record("old", '{"v":9}'), _record("good", good)]}, CONTEXT)

    assert _failed(answer) == ["bad", "old"]
    assert pool.state.get(reason_name("bad"))["reason"] == "not JSON"
    assert pool.state.get(runs.result_name("run-1"))["counts"]["count_new"] == 1
    assert app.handler({"Records": []}, CONTEXT) == {"batchItemFailures": []}
    with pytest.raises(KeyError):
        app.handler({}, CONTEXT)


def test_an_unreachable_source_is_retried_twice_and_then_reported(pool: Pool, app: ModuleType, log_lines: Any) -> None:
    """The seeds' retries and source.failed; existing proxies and the source remain."""
    source_id = pool.add(url=f"http://127.0.0.1:{servers.free_port()}/list")
    body = encode(ScrapeMessage(source_id=source_id))

    answers = [app.handler({"Records": [_record("m", body, attempt)]}, CONTEXT) for attempt in (1, 2, 3)]

    assert [_failed(answer) for answer in answers] == [["m"]] * 3
    [(kind, detail)] = pool.events()
    assert kind == "source.failed"
    assert (detail["source_id"], detail["reason"], detail["attempts"]) == (source_id, "unreachable", 3)
    jsonschema.validate(detail, json.loads((servers.ROOT / "events/bus/source.failed.schema.json").read_text()))
    source = pool.sources.get(source_id)
    assert source is not None
    assert (source.enabled, source.last_error) == (True, "unreachable")
    assert pool.state.get(reason_name("m"))["attempt"] == 3
    assert [line for line in log_lines() if line.get("SourcesFailed") == [1.0]]


def test_a_forbidden_url_is_refused_at_the_fetch_too(pool: Pool, app: ModuleType) -> None:
    """Input 1: not only at registration."""
    source_id = pool.add(url="https://list.example/")
    pool.sources.update(source_id, url="https://169.254.169.254/latest/")

    app.handler({"Records": [_record("m", encode(ScrapeMessage(source_id=source_id)))]}, CONTEXT)

    assert pool.state.get(reason_name("m"))["reason"] == "refused: link_local"


@pytest.fixture
def log_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[[], list[dict[str, Any]]]:
    """Reads the new log lines and metrics, one JSON object each."""
    stream = io.StringIO()
    monkeypatch.setattr(log.registered_handler, "stream", stream)

    def read() -> list[dict[str, Any]]:
        text = stream.getvalue() + capsys.readouterr().out
        return [json.loads(line) for line in text.splitlines() if line.startswith("{")]

    return read


def test_the_log_has_start_end_and_retries_of_a_scrape(pool: Pool, app: ModuleType, log_lines: Any) -> None:
    """The seeds' lines: counts and duration_ms at the end, retrying and attempt on failure; metrics; I19."""
    good = pool.add("good", inline="8.8.8.8:80:user:s3cret\n8.8.4.4:80\nnonsense-of-a-list")
    bad = pool.add("bad", url=f"http://127.0.0.1:{servers.free_port()}/list")
    records = [_record(name, encode(ScrapeMessage(source_id=name)), attempt=2) for name in (good, bad)]

    app.handler({"Records": records}, CONTEXT)

    lines = log_lines()
    done = next(line for line in lines if line.get("message") == "scrape_source done" and line["source_id"] == good)
    assert (done["level"], done["count_new"], done["count_updated"], done["count_rejected"]) == ("INFO", 2, 0, 1)
    assert done["duration_ms"] >= 0
    warning = next(line for line in lines if line.get("level") == "WARNING")
    assert (warning["source_id"], warning["error"], warning["retrying"], warning["attempt"]) == (
        bad, "unreachable", True, 2,
    )  # fmt: skip
    assert any(line.get("ProxiesDiscovered") == [2.0] for line in lines)
    assert "s3cret" not in str(lines)
    assert "nonsense-of-a-list" not in str(lines)


def test_scrape_all_stores_its_result(pool: Pool, app: ModuleType, log_lines: Any) -> None:
    """Log line, message, and result by id."""
    pool.add(inline="8.8.8.8:80")

    answer = _load("scrape_all").handler({}, SimpleNamespace(aws_request_id="run-all"))

    assert answer["count_enqueued"] == 1
    assert pool.state.get(runs.result_name("run-all"))["counts"]["count_enqueued"] == 1
    assert any(line.get("message") == "scrape_all done" for line in log_lines())


def test_a_source_is_not_scraped_during_a_requested_pause(pool: Pool) -> None:
    """Input 29: Retry-After of a 429."""
    source_id, now = pool.add(url="https://list.example/"), clock.now()

    error = SourceError("http_429", status=429, retry_after_seconds=3600)
    pool.scraper.failed(source_id, error, now, attempts=1, is_last=False)

    assert pool.scrape(source_id).skipped == "asked_to_wait"
    assert pool.scheduler.scrape_all(now)["count_enqueued"] == 0


def test_a_forbidden_address_is_counted(pool: Pool, app: ModuleType, log_lines: Any) -> None:
    """Input 1: the metric SsrfBlocked."""
    source_id = pool.add(url="https://list.example/")
    pool.sources.update(source_id, url="https://10.0.0.1/")

    app.handler({"Records": [_record("m", encode(ScrapeMessage(source_id=source_id)))]}, CONTEXT)

    assert any(line.get("SsrfBlocked") == [1.0] for line in log_lines())
