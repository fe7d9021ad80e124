"""Failures on a local stack: unreadable messages and sources, a cache that does not respond, the kill switch, failed tasks."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from tests.support.stack import LocalStack, wait_until

pytestmark = [pytest.mark.xdist_group("stack"), pytest.mark.timeout(300)]

UNKNOWN_VERSION = '{"v": 99, "source_id": "farm"}'


def send(stack: LocalStack, queue: str, body: str) -> None:
    url = stack.running.outputs[f"{queue}QueueUrl"]
    stack.clients("sqs").send_message(QueueUrl=url, MessageBody=body, MessageGroupId="test")


def dead(stack: LocalStack, queue: str) -> int:
    """The number of messages in a dead-letter queue."""
    url, names = stack.running.outputs[f"{queue}DeadLetterQueueUrl"], ["ApproximateNumberOfMessages"]
    response = stack.clients("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=names)
    return int(response["Attributes"]["ApproximateNumberOfMessages"])


def test_an_unreadable_message_ends_in_the_dead_letter_queue_with_its_reason(stack: LocalStack) -> None:
    """Inputs 74 and 82, I13, I14: messages of both queues are listed with a reason; a redrive retries them."""
    send(stack, "Validate", "not JSON")
    send(stack, "Scrape", UNKNOWN_VERSION)
    wait_until(lambda: dead(stack, "Validate") == dead(stack, "Scrape") == 1)

    messages = stack.command("dlq", "list")["messages"]
    assert {(message["queue"], message["body"], message["reason"]) for message in messages} == {
        ("validate", "not JSON", "not JSON"),
        ("scrape", UNKNOWN_VERSION, "unknown version"),
    }
    assert {stack.call("GET", f"/tasks/{message['message_id']}")[1]["attempt"] for message in messages} == {3}

    assert stack.command("dlq", "redrive") == {"redriven": 2}
    wait_until(lambda: dead(stack, "Validate") == dead(stack, "Scrape") == 1)
    for queue in ("Validate", "Scrape"):
        stack.clients("sqs").purge_queue(QueueUrl=stack.running.outputs[f"{queue}DeadLetterQueueUrl"])


def test_an_unreadable_source_is_retried_then_reported_and_a_redrive_scrapes_it(stack: LocalStack) -> None:
    """Two retries with a delay; existing proxies stay; a redrive succeeds after the cause was removed."""
    file = stack.folder / "late.txt"
    before = stack.statuses()
    assert stack.call("POST", "/sources", {"id": "late", "path": str(file), "parser": "lines"})[0] == 201
    stack.call("POST", "/sources/late/scrape")

    wait_until(lambda: dead(stack, "Scrape") == 1)

    def logged() -> list[tuple[Any, ...]]:
        lines = [line for line in stack.log("ScrapeSource") if line.get("source_id") == "late" and "attempt" in line]
        return [(line["level"], line["attempt"], line["retrying"], line["error"]) for line in lines]

    assert wait_until(lambda: len(logged()) == 3 and logged()) == [
        ("WARNING", 1, True, "unreadable"),
        ("WARNING", 2, True, "unreadable"),
        ("ERROR", 3, False, "unreadable"),
    ]
    assert stack.call("GET", "/sources/late")[1]["last_error"] == "unreadable"
    assert [detail["source_id"] for detail in wait_until(lambda: stack.events.received("source.failed"))] == ["late"]
    assert stack.statuses() == before

    file.write_text("127.0.0.1:9\n")
    assert stack.command("dlq", "redrive") == {"redriven": 1}

    wait_until(lambda: stack.call("GET", "/sources/late")[1]["valid"] == 1)
    assert dead(stack, "Scrape") == 0


def test_while_the_cache_does_not_respond_leases_are_refused_and_checks_continue(stack: LocalStack) -> None:
    """I21: 503 with Retry-After from the function itself, not from its time limit; a new proxy is checked in the meantime."""
    with stack.frozen("valkey"):
        status, problem, headers = stack.call_with_headers("POST", "/leases", {})

        assert stack.call("POST", "/proxies", {"lines": "127.0.0.1:7"})[0] == 202
        wait_until(lambda: {one["proxy"]: one["status"] for one in stack.proxies()}.get("http://127.0.0.1:7") == "dead")

    assert (status, problem["type"]) == (503, "unavailable")
    assert 0 < int(headers["retry-after"]) <= 30
    lease = wait_until(lambda: (found := stack.call("POST", "/leases", {}))[0] == 201 and found[1])
    stack.call("DELETE", f"/leases/{lease['id']}")


def test_the_kill_switch_stops_leases_at_once_and_can_be_reset(stack: LocalStack) -> None:
    """Input 91: PATCH /settings invokes expire_leases, which copies it to Redis; the queues keep their messages."""
    assert stack.call("PATCH", "/settings", {"paused": True})[1]["paused"] is True
    wait_until(lambda: stack.call("POST", "/leases", {})[1].get("type") == "paused")

    stack.call("PATCH", "/settings", {"paused": False})

    lease = wait_until(lambda: (found := stack.call("POST", "/leases", {}))[0] == 201 and found[1])
    stack.call("DELETE", f"/leases/{lease['id']}")


def test_a_failed_run_is_logged_and_stored(stack: LocalStack) -> None:
    """A retry is a warning, the final failure an error; the result is stored under the run's id."""
    name = stack.running.outputs["ExpireLeasesFunction"]
    with redis.Redis.from_url(stack.running.redis_url) as cache:
        cache.execute_command("ACL", "SETUSER", "default", "-set")
        response = stack.clients("lambda").invoke(FunctionName=name, Payload=b"{}")
        cache.execute_command("ACL", "SETUSER", "default", "+@all")

    assert response["FunctionError"]
    logged = [line for line in stack.log("ExpireLeases") if line.get("level") in ("WARNING", "ERROR")][-2:]
    assert [(line["level"], line["message"]) for line in logged] == [
        ("WARNING", "expire_leases failed"),
        ("ERROR", "expire_leases failed"),
    ]
    assert (logged[0]["retrying"], logged[0]["attempt"]) == (True, 1)
    assert logged[1]["duration_ms"] >= 0
    result = stack.call("GET", f"/tasks/{logged[1]['run_id']}")[1]
    assert (result["status"], result["error"]) == ("failed", logged[1]["error"])
