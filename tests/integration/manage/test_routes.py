"""The admin API on the emulated AWS: each route and its AWS calls."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from proxypool import aws, clock
from proxypool.aws import queues
from proxypool.aws.state import REBUILD_WANTED
from proxypool.jobs.build import build_job_table, build_results
from proxypool.jobs.job import Job, JobState
from proxypool.jobs.store.statements import Ending
from proxypool.local.emulation import template
from proxypool.manage import document, routes
from proxypool.proxies.proxy import Protocol, Proxy, Status
from proxypool.tasks import runs

from tests.support.admin import Admin
from tests.support.servers import ROOT


def _allowed() -> set[tuple[str, str]]:
    """The permissions of the function in the template."""
    policies = template.load(ROOT / "template.yaml")["Resources"]["ManageFunction"]["Properties"]["Policies"]
    permissions: set[tuple[str, str]] = set()
    for statement in policies[0]["Statement"]:
        resources = statement["Resource"] if isinstance(statement["Resource"], list) else [statement["Resource"]]
        actions = statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]
        names = {
            "".join(re.findall(r"\w+(?:Table|Queue|Function|Bucket)", json.dumps(resource))) for resource in resources
        }
        permissions |= {(name, action) for name in names for action in actions}
    return permissions


def test_every_route_responds_as_documented_and_uses_exactly_the_permissions_of_the_template(admin: Admin) -> None:
    """Least privilege."""
    routes_seen: set[str] = set()

    def call(route: str, body: object = None, **parts: Any) -> Any:
        routes_seen.add(route)
        status, value = admin(route, body, **parts)
        assert status < 300, value
        return value

    admin.calls.clear()
    source = call("POST /sources", {"id": "list", "inline": "198.51.100.1:80", "tags": ["eu"]})
    assert call("GET /sources")["sources"] == [source] == [call("GET /sources/{id}", name="list")]
    assert call("PATCH /sources/{id}", {"name": "mine"}, name="list")["name"] == "mine"
    assert call("POST /sources/{id}/scrape", name="list") == {"source_id": "list", "queued": True}
    added = call("POST /proxies", {"lines": "8.8.8.8:80\n8.8.4.4:80\nnonsense\n10.0.0.1:80", "tags": ["hand"]})
    assert added == {"new": 2, "updated": 0, "unchanged": 0, "rejected": {"no_address": 1, "private": 1}}
    assert call("POST /proxies", {"lines": "8.8.8.8:80", "tags": ["more"]})["updated"] == 1
    first = call("GET /proxies", query={"tag": "more"})["proxies"][0]["id"]
    assert "never checked" in " ".join(call("GET /proxies/{id}", name=first)["explain"]["reasons"])
    assert call("PATCH /proxies/{id}", {"tags": ["b", "a"], "kind": "mobile"}, name=first)["tags"] == ["a", "b"]
    assert call("PATCH /proxies/{id}", {"slots": 50}, name=first)["slots"] == 50
    assert call("PATCH /proxies/{id}", {"tags": ["a"]}, name=first)["slots"] == 50
    call("DELETE /proxies/{id}", name=first)
    assert call("GET /proxies", query={"status": "retired"})["proxies"][0]["id"] == first
    assert call("POST /proxies/{id}/restore", name=first)["status"] == "unchecked"
    assert call("PATCH /settings", {"owner_quota": 5})["owner_quota"] == 5
    assert call("GET /settings")["owner_quota"] == 5
    with runs.record_run("scrape_all", run_id="run-1", state=admin.state, result_ttl_seconds=60) as run:
        run.counts["count_enqueued"] = 1
    admin.calls.discard(("StateTable", "dynamodb:PutItem"))  # of the run; settings are written again below
    assert call("GET /tasks/{id}", name="run-1") == call("GET /stats/pool")["tasks"]["scrape_all"]
    call("PATCH /settings", {"owner_quota": None})
    assert admin.state.get(REBUILD_WANTED) is None
    wanted_at = call("POST /pool/rebuild")["wanted_at"]
    assert admin.state.get(REBUILD_WANTED) == {"at": wanted_at}
    assert call("GET /openapi.json") == document.load_openapi()
    call("DELETE /sources/{id}", name="list")
    call("POST /sources", {"id": "large", "s3": "uploads/large.txt"})
    assert call("POST /sources/{id}/upload", name="large")["key"] == "uploads/large.txt"
    call_job_routes(call, admin)

    assert routes_seen == {row.route for row in routes.router(admin.settings).operations}
    tested_elsewhere = {
        ("ExpireLeasesFunction", "lambda:InvokeFunction"),
        ("BodiesBucket", "s3:GetObject"),
        ("BodiesBucket", "s3:DeleteObject"),
    }
    worker_calls = {("JobsTable", "dynamodb:PartiQLUpdate")}  # this test acts as the worker
    used = admin.calls - worker_calls | tested_elsewhere
    assert used == _allowed()


def call_job_routes(call: Callable[..., Any], admin: Admin) -> None:
    """Allows a domain; queues, fetches, reads, replays and removes a page."""
    assert call("PUT /domains/{id}", {"requests_per_second": 5}, name="shop.example")["concurrency"] == 2
    assert [domain["name"] for domain in call("GET /domains")["domains"]] == ["shop.example"]
    job_id = call("POST /jobs", {"url": "https://shop.example/", "batch": "b"})["id"]
    table = build_job_table(admin.settings)
    (run,) = table.start([f"local/{job_id}"], now=clock.now(), seconds=9)
    assert isinstance(run, Job)
    packed, key = build_results(admin.settings).store(run, {"url": "https://shop.example/", "data": 1})
    table.finish([(run, Ending(state=JobState.DONE, attempts=1, result=packed, result_key=key))], now=clock.now())
    assert call("GET /jobs/{id}", name=job_id)["state"] == "done"
    assert call("GET /jobs/{id}/result", name=job_id)["data"] == 1
    assert [job["id"] for job in call("GET /jobs", query={"state": "done"})["jobs"]] == [job_id]
    assert call("GET /batches/{id}", name="b")["progress"] == 1
    assert call("POST /jobs/{id}/replay", name=job_id)["replays"] == 1
    call("DELETE /jobs/{id}", name=job_id)
    call("DELETE /domains/{id}", name="shop.example")


def test_a_result_in_s3_is_read_and_deleted_with_its_job(admin: Admin) -> None:
    with_object = {("BodiesBucket", "s3:GetObject"), ("BodiesBucket", "s3:DeleteObject")}
    admin("PUT /domains/{id}", {}, name="shop.example")
    job_id = admin("POST /jobs", {"url": "https://shop.example/"})[1]["id"]
    table = build_job_table(admin.settings)
    (run,) = table.start([f"local/{job_id}"], now=clock.now(), seconds=9)
    assert isinstance(run, Job)
    key = f"results/{job_id}.json.gz"
    aws.client("s3").put_object(
        Bucket=admin.settings.bodies_bucket, Key=key, Body=gzip.compress(b'{"url":"x","data":2}')
    )
    table.finish([(run, Ending(state=JobState.DONE, attempts=1, result_key=key))], now=clock.now())

    assert admin("GET /jobs/{id}/result", name=job_id)[1]["data"] == 2
    admin("DELETE /jobs/{id}", name=job_id)

    assert with_object <= admin.calls
    assert "Contents" not in aws.client("s3").list_objects_v2(Bucket=admin.settings.bodies_bucket)


def test_routes_send_the_messages_of_the_tasks(admin: Admin) -> None:
    admin("POST /sources", {"id": "list", "inline": "x"})
    admin("POST /sources/{id}/scrape", name="list")
    admin("POST /proxies", {"lines": "8.8.8.8:80"})

    proxy = Proxy(Protocol.HTTP, "8.8.8.8", 80)
    assert [message["source_id"] for message in admin.messages(admin.settings.scrape_queue_url)] == ["list"]
    assert [message["proxy_id"] for message in admin.messages(admin.settings.validate_queue_url)] == [proxy.id]


def test_a_restored_proxy_is_unchecked_and_due_at_once(admin: Admin) -> None:
    (proxy_id,) = admin.add(Proxy(Protocol.HTTP, "8.8.8.8", 80))
    admin("DELETE /proxies/{id}", name=proxy_id)

    status, restored = admin("POST /proxies/{id}/restore", name=proxy_id)

    record = admin.proxies.get(proxy_id)
    assert record
    assert record.next_check_at
    assert (status, restored["status"], record.status) == (200, "unchecked", Status.UNCHECKED)
    assert record.next_check_at <= clock.now()
    (message,) = admin.messages(admin.settings.validate_queue_url)
    assert queues.decode(json.dumps(message), queues.ValidateMessage).next_check_at == clock.epoch(record.next_check_at)


def test_restoring_a_proxy_that_is_not_retired_has_no_effect(admin: Admin) -> None:
    (proxy_id,) = admin.add(Proxy(Protocol.HTTP, "8.8.8.8", 80))
    before = admin.proxies.get(proxy_id)

    assert admin("POST /proxies/{id}/restore", name=proxy_id)[0] == 200
    assert admin.proxies.get(proxy_id) == before
    assert admin("POST /proxies/{id}/restore", name="0" * 20)[0] == 404


def test_changed_settings_and_a_requested_rebuild_invoke_the_bridge(
    admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Input 91: a refused change does not invoke it."""
    invocations: list[dict[str, Any]] = []

    class Functions:
        def invoke(self, **arguments: Any) -> None:
            invocations.append(arguments)

    manager = routes.manager()
    named = replace(manager, settings=replace(manager.settings, expire_leases_function="bridge"))
    monkeypatch.setattr(routes, "manager", lambda: named)
    real = aws.client
    monkeypatch.setattr(aws, "client", lambda service: Functions() if service == "lambda" else real(service))

    assert admin("PATCH /settings", {"paused": True})[1]["paused"] is True
    assert admin("PATCH /settings", {"paused": "no"})[0] == 422
    assert admin("POST /pool/rebuild")[0] == 202
    assert admin("POST /pool/rebuild", {"now": True})[0] == 422

    assert [(invocation["FunctionName"], invocation["InvocationType"]) for invocation in invocations] == [
        ("bridge", "Event")
    ] * 2
