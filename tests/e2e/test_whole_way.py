"""The whole data flow on a local stack: source → proxies → checks → stream → index → lease → fetch → ledger."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
import redis

from tests.support.stack import LocalStack, wait_until

pytestmark = [pytest.mark.xdist_group("stack"), pytest.mark.timeout(300)]

WORKING = ("fast", "slow", "leaking", "password")
USELESS = ("dead", "silent", "tampering", "nopassword")


def leased(stack: LocalStack, **wanted: Any) -> dict[str, Any]:
    """A lease, once those of earlier tests have ended."""

    def acquire() -> Any:
        status, lease = stack.call("POST", "/leases", wanted)
        return status == 201 and lease

    return dict(wait_until(acquire))


def lease_all(stack: LocalStack, **wanted: Any) -> list[dict[str, Any]]:
    """Leases of all free proxies, which are released."""
    status, answer = stack.call("POST", "/leases", {"count": 50, "ttl_seconds": 5, **wanted})
    leases: list[dict[str, Any]] = answer.get("leases", []) if status == 201 else []
    for lease in leases:
        stack.call("DELETE", f"/leases/{lease['id']}")
    return leases


def exit_ips(stack: LocalStack, *kinds: str) -> set[str]:
    return {proxy["exit_ip"] for proxy in stack.farm() if proxy["kind"] in kinds}


def test_a_request_through_a_leased_proxy_uses_its_exit(stack: LocalStack) -> None:
    lease = leased(stack)

    with httpx.Client(proxy=lease["proxy_url"], trust_env=False) as client:
        seen = json.loads(client.get(f"{stack.running.judge_url}?nonce={'0' * 32}").json()["payload"])

    assert seen["peer"] == lease["exit_ip"]
    assert stack.call("POST", f"/leases/{lease['id']}/release", {"outcome": "ok"})[0] == 204


def test_the_checks_classify_the_farm_correctly(stack: LocalStack) -> None:
    """Each kind of proxy is stored with its actual properties; tampering ones are not ready."""
    listed = [proxy for proxy in stack.proxies() if proxy["sources"] == ["farm"]]
    working = {proxy["exit_ip"] for proxy in listed if proxy["status"] == "active" and not proxy["tampered"]}

    assert working == exit_ips(stack, *WORKING)
    assert len(listed) == len(stack.farm())


def test_only_proxies_that_work_are_leased(stack: LocalStack) -> None:
    """I7: dead, silent, tampering and password-protected ones are never leased; all others are."""
    exits = wait_until(lambda: {lease["exit_ip"] for lease in lease_all(stack)} == exit_ips(stack, *WORKING))

    assert exits
    assert not exit_ips(stack, *USELESS) & exit_ips(stack, *WORKING)


def test_a_leaking_proxy_is_never_leased_as_anonymous(stack: LocalStack) -> None:
    """Input 42: it reveals the caller's address, and is leased only to requests that accept transparent proxies."""
    by_kind = {level: {lease["exit_ip"] for lease in lease_all(stack, anonymity=level)}
               for level in ("transparent", "anonymous", "elite")}  # fmt: skip
    leaking = exit_ips(stack, "leaking")

    assert leaking <= by_kind["transparent"]
    assert by_kind["anonymous"]
    assert not leaking & (by_kind["anonymous"] | by_kind["elite"])


def test_two_live_leases_never_have_the_same_proxy(stack: LocalStack) -> None:
    """I1: for all proxies of the pool."""
    first = leased(stack, count=2, ttl_seconds=30)["leases"]
    second = stack.call("POST", "/leases", {"count": 50, "ttl_seconds": 30})[1]["leases"]
    held = [lease["proxy_id"] for lease in first + second]

    assert len(set(held)) == len(held) == len(exit_ips(stack, *WORKING))
    assert stack.call("POST", "/leases", {})[1]["type"] == "pool_empty"

    for lease in first + second:
        assert stack.call("DELETE", f"/leases/{lease['id']}")[0] == 204


def test_a_lease_ends_with_its_ttl_without_a_run_of_expire_leases(stack: LocalStack) -> None:
    """I4: its next scheduled run is a day away."""
    before = stack.call("GET", "/stats/pool")[1]["tasks"]["expire_leases"]["id"]
    held = {lease["proxy_id"] for lease in leased(stack, count=50, ttl_seconds=2)["leases"]}
    status, problem, headers = stack.call_with_headers("POST", "/leases")

    again = leased(stack)

    assert (status, problem["type"]) == (409, "pool_empty")
    assert int(headers["retry-after"]) > 0
    assert again["proxy_id"] in held
    assert stack.call("GET", "/stats/pool")[1]["tasks"]["expire_leases"]["id"] == before
    stack.call("DELETE", f"/leases/{again['id']}")


def test_released_and_expired_leases_are_in_the_ledger(stack: LocalStack) -> None:
    """I23: one row each, with owner, proxy, times and outcome."""
    released, expired = leased(stack), leased(stack, ttl_seconds=1)
    stack.call("POST", f"/leases/{released['id']}/release", {"outcome": "blocked"})
    wait_until(lambda: stack.call("GET", f"/leases/{expired['id']}")[0] == 404)

    stack.invoke("ExpireLeases")

    rows = {name: ledger_row(stack, lease["id"]) for name, lease in (("released", released), ("expired", expired))}
    assert {name: row["ended"] for name, row in rows.items()} == {"released": "released", "expired": "expired"}
    assert rows["released"]["outcome"] == "blocked"
    assert {row["owner"] for row in rows.values()} == {"local"}
    assert rows["expired"]["proxy_id"] == expired["proxy_id"]
    assert all(int(row["ended_ms"]) >= int(row["granted_ms"]) for row in rows.values())


def ledger_row(stack: LocalStack, lease_id: str) -> dict[str, str]:
    key = {"lease_id": {"S": lease_id}}
    item = stack.clients("dynamodb").get_item(TableName=stack.running.outputs["LeasesTable"], Key=key)["Item"]
    return {name: next(iter(value.values())) for name, value in item.items()}


def test_a_flushed_cache_is_rebuilt(stack: LocalStack) -> None:
    """Input 78: leases are refused until expire_leases has rebuilt the index; then the same proxies are ready."""
    with redis.Redis.from_url(stack.running.redis_url) as cache:
        cache.flushall()
    status, problem, headers = stack.call_with_headers("POST", "/leases", {})
    assert (status, problem["type"]) == (503, "rebuilding")
    assert int(headers["retry-after"]) > 0

    stack.invoke("ExpireLeases")

    assert {lease["exit_ip"] for lease in lease_all(stack)} == exit_ips(stack, *WORKING)
