"""The straight way on a real stack: a source's bytes → proxies → checks → stream → index → lease → fetch → ledger.

One stack serves all tests of this file (they run in order, on one worker): each uses what it makes itself.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.stack import LocalStack, local_stack, until

pytestmark = [pytest.mark.xdist_group("stack"), pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStack]:
    """A stack whose farm was scraped and checked."""
    with local_stack(tmp_path_factory.mktemp("stack")) as found:
        assert found.at.farm is not None
        listed = json.loads(Path(found.at.farm).read_text())["list_file"]
        status, source = found.call("POST", "/sources", {"id": "farm", "path": listed, "parser": "lines"})
        assert status == 201, source
        assert found.call("POST", "/sources/farm/scrape")[0] in (200, 202)
        until(lambda: not statuses(found).get("unchecked") and statuses(found).get("active"), 60)
        yield found


def proxies(stack: LocalStack) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = stack.call("GET", "/proxies")[1]["proxies"]
    return found


def statuses(stack: LocalStack) -> dict[str, int]:
    counted: dict[str, int] = {}
    for proxy in proxies(stack):
        counted[proxy["status"]] = counted.get(proxy["status"], 0) + 1
    return counted


def leased(stack: LocalStack, **wanted: Any) -> dict[str, Any]:
    status, lease = stack.call("POST", "/leases", wanted)
    assert status == 201, lease
    return dict(lease)


def exit_ips(stack: LocalStack, *kinds: str) -> set[str]:
    return {proxy["exit_ip"] for proxy in stack.farm() if proxy["kind"] in kinds}


def test_a_leased_proxy_carries_a_request_by_its_own_exit(stack: LocalStack) -> None:
    lease = leased(stack)

    with httpx.Client(proxy=lease["proxy_url"], trust_env=False) as client:
        seen = json.loads(client.get(f"{stack.at.judge_url}?nonce={'0' * 32}").json()["payload"])

    assert seen["peer"] == lease["exit_ip"]
    assert stack.call("POST", f"/leases/{lease['id']}/release", {"outcome": "ok"})[0] == 204


def test_two_leases_at_once_never_hold_the_same_proxy(stack: LocalStack) -> None:
    """I1: exclusive."""
    first, second = leased(stack), leased(stack)

    assert first["proxy_id"] != second["proxy_id"]

    for lease in (first, second):
        stack.call("DELETE", f"/leases/{lease['id']}")


def test_a_lease_ends_with_its_ttl_and_no_job_runs(stack: LocalStack) -> None:
    held = []
    while (answer := stack.call("POST", "/leases", {"ttl_seconds": 3}))[0] == 201:
        held.append(answer[1]["proxy_id"])

    lease = until(lambda: (found := stack.call("POST", "/leases", {"ttl_seconds": 1}))[0] == 201 and found[1], 10)

    assert answer[0] == 409
    assert lease["proxy_id"] in held


def test_only_proxies_that_work_are_leased(stack: LocalStack) -> None:
    """Neither a dead one, nor one that tampers; a leaking one never as anonymous."""
    time.sleep(1.1)  # the leases of the test before
    _, answer = stack.call("POST", "/leases", {"count": 50, "ttl_seconds": 2})
    exits = {lease["exit_ip"] for lease in answer["leases"]}

    assert exits
    assert not exits & exit_ips(stack, "dead", "silent", "tampering", "nopassword")
    leaking = {lease["anonymity"] for lease in answer["leases"] if lease["exit_ip"] in exit_ips(stack, "leaking")}
    assert leaking <= {"transparent"}


def test_a_released_lease_stands_in_the_ledger(stack: LocalStack) -> None:
    time.sleep(2.1)
    lease = leased(stack)
    stack.call("POST", f"/leases/{lease['id']}/release", {"outcome": "success"})

    stack.invoke("ExpireLeases")

    item = stack.clients("dynamodb").get_item(
        TableName=stack.at.outputs["LeasesTable"], Key={"lease_id": {"S": lease["id"]}}
    )
    assert item["Item"]["proxy_id"]["S"] == lease["proxy_id"]


def test_a_message_nobody_can_read_ends_in_the_dead_letter_queue(stack: LocalStack) -> None:
    """input 74, I14."""
    sqs = stack.clients("sqs")
    sqs.send_message(QueueUrl=stack.at.outputs["ValidateQueueUrl"], MessageBody="not JSON", MessageGroupId="x")

    found = until(lambda: stack.messages("ValidateDeadLetterQueue"), 40)

    assert found[0]["Body"] == "not JSON"
    reason = stack.clients("dynamodb").get_item(
        TableName=stack.at.outputs["StateTable"], Key={"name": {"S": f"reason:{found[0]['MessageId']}"}}
    )
    assert "not JSON" in reason["Item"]["value"]["S"]


@pytest.mark.parametrize(
    ("function", "task"),
    [
        ("ScrapeAll", "scrape_all"),
        ("RevalidateSweep", "revalidate_sweep"),
        ("PruneDeadProxies", "prune_dead_proxies"),
        ("PruneOldChecks", "prune_old_checks"),
        ("ExpireLeases", "expire_leases"),
    ],
)
def test_each_scheduled_function_runs_and_its_run_is_kept(stack: LocalStack, function: str, task: str) -> None:
    stack.invoke(function)

    run = stack.call("GET", "/stats/pool")[1]["tasks"][task]
    assert run["status"] == "done"
    assert isinstance(run["duration_ms"], int)
    assert stack.call("GET", f"/tasks/{run['id']}")[1] == run


def test_a_flushed_cache_is_rebuilt(stack: LocalStack) -> None:
    """input 78."""
    import redis

    with redis.Redis.from_url(stack.at.redis_url) as cache:
        cache.flushall()
    assert stack.call("POST", "/leases", {})[0] == 503

    stack.invoke("ExpireLeases")

    lease = until(lambda: (found := stack.call("POST", "/leases", {"ttl_seconds": 1}))[0] == 201 and found[1], 20)
    assert lease["proxy_id"] in {proxy["id"] for proxy in proxies(stack) if proxy["status"] == "active"}
