"""Events on the bus of a local stack; each is valid against its schema in events/bus/."""

from __future__ import annotations

import pytest

from tests.support.stack import LocalStack, wait_until

pytestmark = [pytest.mark.xdist_group("stack"), pytest.mark.timeout(300)]


def test_a_scrape_with_new_proxies_publishes_new_batch(stack: LocalStack) -> None:
    """Once per scrape."""
    details = wait_until(
        lambda: [detail for detail in stack.events.received("proxy.new_batch") if detail["source_id"] == "farm"]
    )

    assert [detail["count"] for detail in details] == [len(stack.farm())]


def test_a_pool_below_its_threshold_publishes_pool_low(stack: LocalStack) -> None:
    """When the status of a proxy changed while fewer proxies were ready than the threshold."""
    (detail, *_) = wait_until(lambda: stack.events.received("proxy.pool_low"))

    assert detail["ready"] < detail["threshold"]


def test_a_source_without_success_for_a_day_publishes_stale_once(stack: LocalStack) -> None:
    """By the creation time in the source's row."""
    assert stack.call("POST", "/sources", {"id": "stale", "inline": "none", "schedule": "rate(1 day)"})[0] == 201
    stack.clients("dynamodb").update_item(
        TableName=stack.running.outputs["SourcesTable"],
        Key={"source_id": {"S": "stale"}},
        UpdateExpression="SET created_at = :long_ago",
        ExpressionAttributeValues={":long_ago": {"N": "1700000000"}},
    )

    stack.invoke("ScrapeAll")
    stack.invoke("ScrapeAll")

    (detail,) = wait_until(lambda: stack.events.received("source.stale"))
    assert (detail["source_id"], detail["hours"], detail["last_success_at"]) == ("stale", 24, None)


def test_a_judge_that_does_not_respond_publishes_down_and_no_proxy_changes(stack: LocalStack) -> None:
    """Case 32: once per outage; the new proxy stays unchecked, all others keep their status."""
    before = stack.statuses()
    with stack.frozen("farm"):
        assert stack.call("POST", "/proxies", {"lines": "127.0.0.1:11"})[0] == 202
        (detail,) = wait_until(lambda: stack.events.received("judge.down"))

    assert detail["reason"] == "no answer"
    assert stack.statuses() - before == {"unchecked": 1}
