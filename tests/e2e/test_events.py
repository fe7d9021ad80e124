"""What the pool tells the world, heard on the bus of a real stack; each event fits its schema in events/bus/."""

from __future__ import annotations

import pytest

from tests.support.stack import LocalStack, until

pytestmark = [pytest.mark.xdist_group("stack"), pytest.mark.timeout(300)]


def test_a_scrape_that_finds_new_proxies_tells_of_the_batch(stack: LocalStack) -> None:
    """The seeds' proxy.new_batch: once per scrape that found some."""
    told = until(lambda: [one for one in stack.ear.heard("proxy.new_batch") if one["source_id"] == "farm"])

    assert [one["count"] for one in told] == [len(stack.farm())]


def test_a_pool_below_its_mark_is_told(stack: LocalStack) -> None:
    """The seeds' proxy.pool_low: a proxy became active or dead while fewer were ready than the mark says."""
    (told, *_) = until(lambda: stack.ear.heard("proxy.pool_low"))

    assert told["ready"] < told["mark"]


def test_a_source_that_brought_nothing_for_long_is_told_once(stack: LocalStack) -> None:
    """The seeds' source.stale, by the clock of the source's row."""
    assert stack.call("POST", "/sources", {"id": "stale", "inline": "none", "schedule": "rate(1 day)"})[0] == 201
    stack.clients("dynamodb").update_item(
        TableName=stack.at.outputs["SourcesTable"],
        Key={"source_id": {"S": "stale"}},
        UpdateExpression="SET created_at = :long_ago",
        ExpressionAttributeValues={":long_ago": {"N": "1700000000"}},
    )

    stack.invoke("ScrapeAll")
    stack.invoke("ScrapeAll")

    (told,) = until(lambda: stack.ear.heard("source.stale"))
    assert (told["source_id"], told["hours"], told["last_success_at"]) == ("stale", 24, None)


def test_a_judge_that_does_not_answer_is_told_and_no_proxy_suffers(stack: LocalStack) -> None:
    """Case 32: judge.down, once per outage; the proxy at hand stays unchecked, all others as they were."""
    before = stack.statuses()
    with stack.silent("farm"):
        assert stack.call("POST", "/proxies", {"lines": "127.0.0.1:11"})[0] == 202
        (told,) = until(lambda: stack.ear.heard("judge.down"))

    assert told["reason"] == "no answer"
    assert stack.statuses() - before == {"unchecked": 1}
