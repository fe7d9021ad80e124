"""The admin API as Lambda calls it, on the emulated AWS: every route, and what it touches."""

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
from proxypool.jobs.build import job_table, results
from proxypool.jobs.job import Job, JobState
from proxypool.jobs.store.statements import Ending
from proxypool.local.emulation import template
from proxypool.manage import openapi, routes
from proxypool.proxies.proxy import Protocol, Proxy, Status
from proxypool.tasks import runs

from tests.support.admin import Admin
from tests.support.servers import ROOT


def _allowed() -> set[tuple[str, str]]:
    """What the template lets the function do."""
    policies = template.load(ROOT / "template.yaml")["Resources"]["ManageFunction"]["Properties"]["Policies"]
    found: set[tuple[str, str]] = set()
    for statement in policies[0]["Statement"]:
        resources = statement["Resource"] if isinstance(statement["Resource"], list) else [statement["Resource"]]
        actions = statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]
        names = {"".join(re.findall(r"\w+(?:Table|Queue|Function|Bucket)", json.dumps(one))) for one in resources}
        found |= {(name, action) for name in names for action in actions}
    return found


def test_every_route_answers_as_documented_and_touches_what_the_template_allows(admin: Admin) -> None:
    """Least privilege: the function may do exactly what its routes do."""
    routes_seen: set[str] = set()

    def ask(route: str, body: object = None, **parts: Any) -> Any:
        routes_seen.add(route)
        status, value = admin(route, body, **parts)
        assert status < 300, value
        return value

    admin.calls.clear()
    source = ask("POST /sources", {"id": "list", "inline": "198.51.100.1:80", "tags": ["eu"]})
    assert ask("GET /sources")["sources"] == [source] == [ask("GET /sources/{id}", name="list")]
    assert ask("PATCH /sources/{id}", {"name": "mine"}, name="list")["name"] == "mine"
    assert ask("POST /sources/{id}/scrape", name="list") == {"source_id": "list", "queued": True}
    added = ask("POST /proxies", {"lines": "8.8.8.8:80\n8.8.4.4:80\nnonsense\n10.0.0.1:80", "tags": ["hand"]})
    assert added == {"new": 2, "updated": 0, "unchanged": 0, "rejected": {"no_address": 1, "private": 1}}
    assert ask("POST /proxies", {"lines": "8.8.8.8:80", "tags": ["more"]})["updated"] == 1
    first = ask("GET /proxies", query={"tag": "more"})["proxies"][0]["id"]
    assert "never checked" in " ".join(ask("GET /proxies/{id}", name=first)["explain"]["reasons"])
    assert ask("PATCH /proxies/{id}", {"tags": ["b", "a"], "kind": "mobile"}, name=first)["tags"] == ["a", "b"]
    assert ask("PATCH /proxies/{id}", {"slots": 50}, name=first)["slots"] == 50
    assert ask("PATCH /proxies/{id}", {"tags": ["a"]}, name=first)["slots"] == 50
    ask("DELETE /proxies/{id}", name=first)
    assert ask("GET /proxies", query={"status": "retired"})["proxies"][0]["id"] == first
    assert ask("POST /proxies/{id}/restore", name=first)["status"] == "unchecked"
    assert ask("PATCH /settings", {"owner_quota": 5})["owner_quota"] == 5
    assert ask("GET /settings")["owner_quota"] == 5
    with runs.run("scrape_all", run_id="run-1", state=admin.state, result_ttl_seconds=60) as run:
        run.counts["count_enqueued"] = 1
    admin.calls.discard(("StateTable", "dynamodb:PutItem"))  # the run's; settings are written again below
    assert ask("GET /tasks/{id}", name="run-1") == ask("GET /stats/pool")["tasks"]["scrape_all"]
    ask("PATCH /settings", {"owner_quota": None})
    assert admin.state.get(REBUILD_WANTED) is None
    wanted_at = ask("POST /pool/rebuild")["wanted_at"]
    assert admin.state.get(REBUILD_WANTED) == {"at": wanted_at}
    assert ask("GET /openapi.json") == openapi.checked_in()
    ask("DELETE /sources/{id}", name="list")
    ask("POST /sources", {"id": "large", "s3": "uploads/large.txt"})
    assert ask("POST /sources/{id}/upload", name="large")["key"] == "uploads/large.txt"
    ask_for_jobs(ask, admin)

    assert routes_seen == {row.route for row in routes.router(admin.settings).operations}
    apart = {
        ("ExpireLeasesFunction", "lambda:InvokeFunction"),
        ("BodiesBucket", "s3:GetObject"),
        ("BodiesBucket", "s3:DeleteObject"),
    }
    workers = {("JobsTable", "dynamodb:PartiQLUpdate")}  # this test plays its part
    used = admin.calls - workers | apart  # seen in tests of their own
    assert used == _allowed()


def ask_for_jobs(ask: Callable[..., Any], admin: Admin) -> None:
    """A domain is allowed, a page queued, fetched by somebody, read, replayed, removed."""
    assert ask("PUT /domains/{id}", {"requests_per_second": 5}, name="shop.example")["concurrency"] == 2
    assert [domain["name"] for domain in ask("GET /domains")["domains"]] == ["shop.example"]
    job_id = ask("POST /jobs", {"url": "https://shop.example/", "batch": "b"})["id"]
    table = job_table(admin.settings)
    (run,) = table.start([f"local/{job_id}"], now=clock.now(), seconds=9)
    assert isinstance(run, Job)
    packed, key = results(admin.settings).store(run, {"url": "https://shop.example/", "data": 1})
    table.finish([(run, Ending(state=JobState.DONE, attempts=1, result=packed, result_key=key))], now=clock.now())
    assert ask("GET /jobs/{id}", name=job_id)["state"] == "done"
    assert ask("GET /jobs/{id}/result", name=job_id)["data"] == 1
    assert [job["id"] for job in ask("GET /jobs", query={"state": "done"})["jobs"]] == [job_id]
    assert ask("GET /batches/{id}", name="b")["progress"] == 1
    assert ask("POST /jobs/{id}/replay", name=job_id)["replays"] == 1
    ask("DELETE /jobs/{id}", name=job_id)
    ask("DELETE /domains/{id}", name="shop.example")


def test_a_large_result_is_read_from_and_removed_with_its_object(admin: Admin) -> None:
    """What lies in S3: read, and gone with its job."""
    with_object = {("BodiesBucket", "s3:GetObject"), ("BodiesBucket", "s3:DeleteObject")}
    admin("PUT /domains/{id}", {}, name="shop.example")
    job_id = admin("POST /jobs", {"url": "https://shop.example/"})[1]["id"]
    table = job_table(admin.settings)
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


def test_the_messages_that_routes_send_are_those_of_the_tasks(admin: Admin) -> None:
    admin("POST /sources", {"id": "list", "inline": "x"})
    admin("POST /sources/{id}/scrape", name="list")
    admin("POST /proxies", {"lines": "8.8.8.8:80"})

    proxy = Proxy(Protocol.HTTP, "8.8.8.8", 80)
    assert [message["source_id"] for message in admin.messages(admin.settings.scrape_queue_url)] == ["list"]
    assert [message["proxy_id"] for message in admin.messages(admin.settings.validate_queue_url)] == [proxy.id]


def test_a_removed_proxy_comes_back_unchecked_and_due_at_once(admin: Admin) -> None:
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


def test_restoring_what_was_not_removed_changes_nothing(admin: Admin) -> None:
    (proxy_id,) = admin.add(Proxy(Protocol.HTTP, "8.8.8.8", 80))
    before = admin.proxies.get(proxy_id)

    assert admin("POST /proxies/{id}/restore", name=proxy_id)[0] == 200
    assert admin.proxies.get(proxy_id) == before
    assert admin("POST /proxies/{id}/restore", name="0" * 20)[0] == 404


def test_settings_and_a_wanted_rebuild_reach_the_cache_at_once(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    """Input 91: the bridge is woken; a change that is refused wakes nobody."""
    woken: list[dict[str, Any]] = []

    class Functions:
        def invoke(self, **arguments: Any) -> None:
            woken.append(arguments)

    manager = routes.manager()
    named = replace(manager, settings=replace(manager.settings, expire_leases_function="bridge"))
    monkeypatch.setattr(routes, "manager", lambda: named)
    real = aws.client
    monkeypatch.setattr(aws, "client", lambda service: Functions() if service == "lambda" else real(service))

    assert admin("PATCH /settings", {"paused": True})[1]["paused"] is True
    assert admin("PATCH /settings", {"paused": "no"})[0] == 422
    assert admin("POST /pool/rebuild")[0] == 202
    assert admin("POST /pool/rebuild", {"now": True})[0] == 422

    assert [(call["FunctionName"], call["InvocationType"]) for call in woken] == [("bridge", "Event")] * 2
