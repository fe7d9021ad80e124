"""Callers with a token: the lease function with events of a JWT authorizer, on Valkey."""

from __future__ import annotations

import json
from typing import Any

import pytest
from proxypool.config.settings import Settings
from proxypool.leases.build import build_pool, build_sessions

from functions.lease import app
from tests.support.leases import a_pool, a_record
from tests.support.tokens import token_event

WORKER = "AROAEXAMPLEEXAMPLE12345"


@pytest.fixture
def ask(valkey_url: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Calls the function, with a pool of two proxies."""
    pool = a_pool(valkey_url, a_record(1), a_record(2))
    settings = Settings(redis_url=valkey_url, pool=pool.cache.keys.pool, worker_role_id=WORKER)
    monkeypatch.setattr(app, "settings", lambda: settings)
    monkeypatch.setattr(app, "pool", lambda: build_pool(settings, pool.cache))
    monkeypatch.setattr(app, "sessions", lambda: build_sessions(settings))

    def request(route: str, subject: str, body: object = None, *, name: str = "", **headers: str) -> tuple[int, Any]:
        event = token_event(route, subject, body, name=name)
        event["headers"] |= headers
        answer = app.handler(event, None)
        return answer["statusCode"], json.loads(answer.get("body") or "null")

    return request


def test_the_subject_of_a_token_owns_its_leases(ask: Any) -> None:
    """I3, inputs 57 and 61: two users of one issuer; each sees, renews and releases only its own."""
    _, ann = ask("POST /leases", "ann", {"ttl_seconds": 30})
    _, bob = ask("POST /leases", "bob", {"ttl_seconds": 30})

    assert ann["proxy_id"] != bob["proxy_id"]
    assert ask("GET /leases", "ann") == (200, {"leases": [ann]})
    assert ask("GET /leases", "bob") == (200, {"leases": [bob]})
    for route, body in (
        ("GET /leases/{id}", None), ("DELETE /leases/{id}", None), ("POST /leases/{id}/renew", {}),
        ("POST /leases/{id}/report", {"outcome": "ok"}), ("POST /leases/{id}/release", {}),
    ):  # fmt: skip
        assert ask(route, "bob", body, name=ann["id"])[0] == 404
    assert ask("POST /leases/release", "bob", {"leases": [ann["id"], bob["id"]]})[1] == {
        "released": 1,
        "unknown": [ann["id"]],
    }
    assert ask("POST /leases/{id}/release", "ann", {"outcome": "ok"}, name=ann["id"])[0] == 204


def test_the_subject_of_a_token_owns_its_sessions(ask: Any) -> None:
    """I15, input 68: two sessions with the same name."""
    saved = {"tokens": {"csrf": "of ann"}}
    assert ask("PUT /sessions/{id}", "ann", saved, name="shop")[0] == 201

    assert ask("GET /sessions/{id}", "bob", name="shop")[0] == 404
    assert ask("DELETE /sessions/{id}", "bob", name="shop")[0] == 404
    assert ask("PUT /sessions/{id}", "bob", {"tokens": {"csrf": "of bob"}}, name="shop")[0] == 201
    assert ask("GET /sessions/{id}", "ann", name="shop")[1]["tokens"] == {"csrf": "of ann"}


@pytest.mark.parametrize("subject", [WORKER, "123456789012", ""])
def test_a_token_cannot_impersonate_the_worker(ask: Any, subject: str) -> None:
    """Input 61: a subject in the form of a role ID is refused, and so is X-On-Behalf-Of."""
    assert ask("POST /leases", subject, {}, **{"x-on-behalf-of": "ann"})[0] == 401
    assert ask("POST /leases", "bob", {}, **{"x-on-behalf-of": "ann"})[0] == 403
    assert ask("GET /leases", "ann") == (200, {"leases": []})
