"""What goes wrong on a real stack: poison, sources that cannot be read, a cache that is silent, the kill switch."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from tests.support.stack import LocalStack, until

pytestmark = [pytest.mark.xdist_group("stack"), pytest.mark.timeout(300)]

FROM_THE_FUTURE = '{"v": 99, "source_id": "farm"}'


def send(stack: LocalStack, queue: str, body: str) -> None:
    url = stack.at.outputs[f"{queue}QueueUrl"]
    stack.clients("sqs").send_message(QueueUrl=url, MessageBody=body, MessageGroupId="test")


def dead(stack: LocalStack, queue: str) -> int:
    """How many letters lie in a dead-letter queue."""
    url, names = stack.at.outputs[f"{queue}DeadLetterQueueUrl"], ["ApproximateNumberOfMessages"]
    found = stack.clients("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=names)
    return int(found["Attributes"]["ApproximateNumberOfMessages"])


def test_a_message_nobody_can_read_ends_in_the_dead_letter_queue_with_its_reason(stack: LocalStack) -> None:
    """Inputs 74 and 82, I13, I14: of both queues, listed with why; a redrive tries them once more."""
    send(stack, "Validate", "not JSON")
    send(stack, "Scrape", FROM_THE_FUTURE)
    until(lambda: dead(stack, "Validate") == dead(stack, "Scrape") == 1)

    found = stack.command("dlq", "list")["messages"]
    assert {(letter["queue"], letter["body"], letter["reason"]) for letter in found} == {
        ("validate", "not JSON", "not JSON"),
        ("scrape", FROM_THE_FUTURE, "unknown version"),
    }
    assert {stack.call("GET", f"/tasks/{letter['message_id']}")[1]["attempt"] for letter in found} == {3}

    assert stack.command("dlq", "redrive") == {"redriven": 2}
    until(lambda: dead(stack, "Validate") == dead(stack, "Scrape") == 1)
    for queue in ("Validate", "Scrape"):
        stack.clients("sqs").purge_queue(QueueUrl=stack.at.outputs[f"{queue}DeadLetterQueueUrl"])


def test_a_source_that_cannot_be_read_is_retried_then_told_and_a_redrive_heals_it(stack: LocalStack) -> None:
    """The seeds' two retries, with delays of seconds; existing proxies stay; the letter is scraped once its cause is gone."""
    file = stack.folder / "late.txt"
    before = stack.statuses()
    assert stack.call("POST", "/sources", {"id": "late", "path": str(file), "parser": "lines"})[0] == 201
    stack.call("POST", "/sources/late/scrape")

    until(lambda: dead(stack, "Scrape") == 1)

    def told() -> list[tuple[Any, ...]]:
        lines = [line for line in stack.log("ScrapeSource") if line.get("source_id") == "late" and "attempt" in line]
        return [(line["level"], line["attempt"], line["retrying"], line["error"]) for line in lines]

    assert until(lambda: len(told()) == 3 and told()) == [
        ("WARNING", 1, True, "unreadable"),
        ("WARNING", 2, True, "unreadable"),
        ("ERROR", 3, False, "unreadable"),
    ]
    assert stack.call("GET", "/sources/late")[1]["last_error"] == "unreadable"
    assert [told["source_id"] for told in until(lambda: stack.ear.heard("source.failed"))] == ["late"]
    assert stack.statuses() == before

    file.write_text("127.0.0.1:9\n")
    assert stack.command("dlq", "redrive") == {"redriven": 1}

    until(lambda: stack.call("GET", "/sources/late")[1]["valid"] == 1)
    assert dead(stack, "Scrape") == 0


def test_while_the_cache_is_silent_no_lease_is_granted_and_checking_goes_on(stack: LocalStack) -> None:
    """I21: 503 with Retry-After, of the function's own making and not of its time limit; a new proxy is checked meanwhile."""
    with stack.silent("valkey"):
        status, problem, headers = stack.answer("POST", "/leases", {})

        assert stack.call("POST", "/proxies", {"lines": "127.0.0.1:7"})[0] == 202
        until(lambda: {one["proxy"]: one["status"] for one in stack.proxies()}.get("http://127.0.0.1:7") == "dead")

    assert (status, problem["type"]) == (503, "unavailable")
    assert 0 < int(headers["retry-after"]) <= 30
    lease = until(lambda: (found := stack.call("POST", "/leases", {}))[0] == 201 and found[1])
    stack.call("DELETE", f"/leases/{lease['id']}")


def test_the_kill_switch_stops_leases_at_once_and_lets_go_again(stack: LocalStack) -> None:
    """Input 91: PATCH /settings has expire_leases carry it into Redis; what waits in the queues is kept."""
    assert stack.call("PATCH", "/settings", {"paused": True})[1]["paused"] is True
    until(lambda: stack.call("POST", "/leases", {})[1].get("type") == "paused")

    stack.call("PATCH", "/settings", {"paused": False})

    lease = until(lambda: (found := stack.call("POST", "/leases", {}))[0] == 201 and found[1])
    stack.call("DELETE", f"/leases/{lease['id']}")


def test_a_failed_run_is_told_in_the_log_and_kept(stack: LocalStack) -> None:
    """The seeds' results for inspection: a retry is a warning, the end an error, kept under the run's id."""
    name = stack.at.outputs["ExpireLeasesFunction"]
    with redis.Redis.from_url(stack.at.redis_url) as cache:
        cache.execute_command("ACL", "SETUSER", "default", "-set")
        answer = stack.clients("lambda").invoke(FunctionName=name, Payload=b"{}")
        cache.execute_command("ACL", "SETUSER", "default", "+@all")

    assert answer["FunctionError"]
    told = [line for line in stack.log("ExpireLeases") if line.get("level") in ("WARNING", "ERROR")][-2:]
    assert [(line["level"], line["message"]) for line in told] == [
        ("WARNING", "expire_leases failed"),
        ("ERROR", "expire_leases failed"),
    ]
    assert (told[0]["retrying"], told[0]["attempt"]) == (True, 1)
    assert told[1]["duration_ms"] >= 0
    kept = stack.call("GET", f"/tasks/{told[1]['run_id']}")[1]
    assert (kept["status"], kept["error"]) == ("failed", told[1]["error"])
