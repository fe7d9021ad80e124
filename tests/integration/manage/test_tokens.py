"""Callers with a token at the admin API: jobs are their subject's, the operator's routes ask for a scope."""

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


def ask(
    route: str, subject: str, body: object = None, *, name: str = "", query: Any = None, **claims: str
) -> tuple[int, Any]:
    """Status and JSON."""
    event = token_event(route, subject, body, name=name, **claims) | {"queryStringParameters": query}
    answer = app.handler(event, None)
    return answer["statusCode"], json.loads(answer.get("body") or "null")


@pytest.fixture(autouse=True)
def _deployed(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on AWS, with a scope as Cognito names them."""
    monkeypatch.setattr(routes, "settings", lambda: replace(admin.settings, allow_loopback=False, admin_scope=SCOPE))


def test_jobs_belong_to_the_tokens_subject() -> None:
    """Input 61: two users, two lists; the other's job is not there."""
    assert ask("PUT /domains/{id}", "root", {}, name="shop.example", scope=SCOPE)[0] == 200
    pages = {owner: {"url": f"https://shop.example/{owner}", "batch": "b"} for owner in ("ann", "bob")}
    ids = {owner: ask("POST /jobs", owner, page)[1]["id"] for owner, page in pages.items()}

    for owner, other in (("ann", "bob"), ("bob", "ann")):
        assert [job["id"] for job in ask("GET /jobs", owner, query={"state": "queued"})[1]["jobs"]] == [ids[owner]]
        assert ask("GET /batches/{id}", owner, name="b")[1]["jobs"] == 1
        for route in ("GET /jobs/{id}", "GET /jobs/{id}/result", "DELETE /jobs/{id}", "POST /jobs/{id}/replay"):
            assert ask(route, owner, name=ids[other])[0] == 404, route
    assert ask("GET /jobs/{id}", "bob", name=ids["bob"])[0] == 200


def test_the_operators_routes_ask_for_the_scope_that_the_deployment_names() -> None:
    """Input 61: the exact one, wherever the issuer writes it."""
    assert ask("GET /settings", "ann")[0] == 403
    assert ask("GET /settings", "ann", scope="admin")[0] == 403
    assert ask("POST /pool/rebuild", "ann", scope="read proxypool/admins")[0] == 403
    assert ask("GET /settings", "root", scope=f"read {SCOPE}")[0] == 200
    assert ask("GET /settings", "root", scp=f"[read {SCOPE}]")[0] == 200
    assert ask("GET /stats/pool", "ann")[0] == 200
