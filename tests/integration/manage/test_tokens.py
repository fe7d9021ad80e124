"""Callers with a token: jobs belong to the subject, operator routes require a scope."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from proxypool.manage import routes

from functions.manage import app
from tests.support.admin import Admin
from tests.support.tokens import token_event

SCOPE = "proxypool/admin"


def request(
    route: str, subject: str, body: object = None, *, name: str = "", query: Any = None, **claims: str
) -> tuple[int, Any]:
    """Returns status and JSON."""
    event = token_event(route, subject, body, name=name, **claims) | {"queryStringParameters": query}
    answer = app.handler(event, None)
    return answer["statusCode"], json.loads(answer.get("body") or "null")


@pytest.fixture(autouse=True)
def _deployed(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings as on AWS, with a scope in the form of Cognito."""
    monkeypatch.setattr(routes, "settings", lambda: replace(admin.settings, allow_loopback=False, admin_scope=SCOPE))


def test_jobs_belong_to_the_subject_of_the_token() -> None:
    """Input 61: a job of another user is not found."""
    assert request("PUT /domains/{id}", "root", {}, name="shop.example", scope=SCOPE)[0] == 200
    pages = {owner: {"url": f"https://shop.example/{owner}", "batch": "b"} for owner in ("ann", "bob")}
    ids = {owner: request("POST /jobs", owner, page)[1]["id"] for owner, page in pages.items()}

    for owner, other in (("ann", "bob"), ("bob", "ann")):
        assert [job["id"] for job in request("GET /jobs", owner, query={"state": "queued"})[1]["jobs"]] == [ids[owner]]
        assert request("GET /batches/{id}", owner, name="b")[1]["jobs"] == 1
        for route in ("GET /jobs/{id}", "GET /jobs/{id}/result", "DELETE /jobs/{id}", "POST /jobs/{id}/replay"):
            assert request(route, owner, name=ids[other])[0] == 404, route
    assert request("GET /jobs/{id}", "bob", name=ids["bob"])[0] == 200


def test_operator_routes_require_the_configured_scope() -> None:
    """Input 61: an exact match, in any claim for scopes."""
    assert request("GET /settings", "ann")[0] == 403
    assert request("GET /settings", "ann", scope="admin")[0] == 403
    assert request("POST /pool/rebuild", "ann", scope="read proxypool/admins")[0] == 403
    assert request("GET /settings", "root", scope=f"read {SCOPE}")[0] == 200
    assert request("GET /settings", "root", scp=f"[read {SCOPE}]")[0] == 200
    assert request("GET /stats/pool", "ann")[0] == 200
