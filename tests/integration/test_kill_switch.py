"""The kill switch in each function, and the lifetime of results: the handlers on the emulated AWS."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from proxypool import aws
from proxypool.aws import state
from proxypool.aws.queues import RECHECK_GROUP, ValidateMessage, encode
from proxypool.aws.state import SETTINGS, SETTINGS_CACHE_SECONDS, StateTable
from proxypool.leases.build import build_bridge
from proxypool.tasks.runs import result_name

from tests.support.clock import Clock
from tests.support.deployment import CONTEXT, Deployment, load, sample, sampled_proxy

pytestmark = pytest.mark.xdist_group("samples")


@pytest.fixture
def paused(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployment]:
    """A paused deployment, without cached operator settings."""
    table = StateTable(deployment.settings.state_table)
    table.put(SETTINGS, {"paused": True})
    monkeypatch.setattr(state, "_settings_cache", {})
    yield deployment
    table.put(SETTINGS, {"paused": False})


def waiting(queue_url: str) -> dict[str, int]:
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesDelayed"]
    attributes = aws.client("sqs").get_queue_attributes(QueueUrl=queue_url, AttributeNames=names)["Attributes"]
    return {name.removeprefix("ApproximateNumberOfMessages") or "Now": int(attributes[name]) for name in names}


def test_a_paused_pool_scrapes_and_enqueues_nothing(paused: Deployment) -> None:
    """Input 91: scrape_all and the sweep enqueue nothing, a queued scrape is skipped."""
    assert load("scrape_all").handler(sample("scrape_all"), CONTEXT) == {"count_enqueued": 0, "paused": 1}
    assert load("revalidate_sweep").handler(sample("revalidate_sweep"), CONTEXT) == {"count": 0, "paused": True}
    assert load("scrape_source").handler(sample("scrape_source"), CONTEXT) == {"batchItemFailures": []}

    assert paused.last("scrape_source")["counts"]["skipped"] == "paused"
    assert (
        waiting(paused.settings.scrape_queue_url)
        == waiting(paused.settings.validate_queue_url)
        == {
            "Now": 0,
            "Delayed": 0,
        }
    )


def test_a_paused_pool_requeues_checks(paused: Deployment) -> None:
    """Input 91, I13: the message is sent again, delayed, without using up its receive count; the proxy is unchanged."""
    before = paused.proxy

    assert load("validate_proxy").handler(sample("validate_proxy"), CONTEXT) == {"batchItemFailures": []}

    assert waiting(paused.settings.validate_queue_url) == {"Now": 0, "Delayed": 1}
    assert paused.proxy == before


def test_a_paused_pool_leases_nothing_once_the_bridge_has_run(paused: Deployment) -> None:
    """Input 91: 503 with Retry-After; leases are granted again after the next run of the bridge."""
    app, event = load("lease"), sample("lease")
    bridge = build_bridge(paused.settings)
    bridge.copy_settings()

    refused = app.handler(event, CONTEXT)

    assert (refused["statusCode"], json.loads(refused["body"])["type"]) == (503, "paused")
    assert int(refused["headers"]["retry-after"]) > 0
    StateTable(paused.settings.state_table).put(SETTINGS, {"paused": False})
    bridge.copy_settings()
    assert app.handler(event, CONTEXT)["statusCode"] == 201


def test_a_function_sees_the_pause_after_the_cache_expires(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Input 91: 30 s, within the documented minute."""
    table, now = StateTable(deployment.settings.state_table), time.monotonic()
    monkeypatch.setattr(state, "_settings_cache", {})
    monkeypatch.setattr(time, "monotonic", lambda: now)
    assert not state.is_paused(table)

    table.put(SETTINGS, {"paused": True})
    cached = state.is_paused(table)
    now += SETTINGS_CACHE_SECONDS
    refreshed = state.is_paused(table)
    table.put(SETTINGS, {"paused": False})

    assert (cached, refreshed) == (False, True)


def test_a_result_is_readable_for_an_hour(deployment: Deployment, clock: Clock) -> None:
    """The seeds' keep_result of 3,600 s; input 80: absent after that, even if its row still exists."""
    started_at = clock.stop()
    load("prune_old_checks").handler(sample("prune_old_checks"), CONTEXT)
    table, key = deployment.settings.state_table, {"name": {"S": result_name(CONTEXT.aws_request_id)}}
    row = aws.client("dynamodb").get_item(TableName=table, Key=key)["Item"]

    assert int(row["ttl"]["N"]) == started_at.timestamp() + 3_600
    assert read_task()[0] == 200
    clock.move(seconds=3_599)
    assert read_task()[0] == 200
    clock.move(seconds=1)
    assert read_task() == (404, "not_found")


def read_task() -> tuple[int, Any]:
    """GET /tasks/{id} of the run: status and type."""
    event = sample("manage")
    path = f"/tasks/{CONTEXT.aws_request_id}"
    context = event["requestContext"]
    event |= {"routeKey": "GET /tasks/{id}", "rawPath": path, "pathParameters": {"id": CONTEXT.aws_request_id}}
    event["requestContext"] = context | {"http": context["http"] | {"path": path}}
    answer = load("manage").handler(event, CONTEXT)
    return answer["statusCode"], json.loads(answer["body"]).get("type", "task")


def test_a_message_that_is_redelivered_after_its_success_has_no_effect(deployment: Deployment) -> None:
    """Inputs 71 and 72: its next_check_at differs from that of the row, so that the claim fails."""
    stale = ValidateMessage(proxy_id=sampled_proxy().id, next_check_at=1, sweep_id=RECHECK_GROUP)
    record = {**sample("validate_proxy")["Records"][0], "body": encode(stale)}
    before = deployment.proxy

    assert load("validate_proxy").handler({"Records": [record]}, CONTEXT) == {"batchItemFailures": []}

    assert deployment.last("validate_proxy")["counts"] == {"count_superseded": 1}
    assert deployment.proxy == before
