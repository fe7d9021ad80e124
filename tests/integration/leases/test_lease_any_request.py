"""Any request for leases and sessions, by the document or against it, gets a documented answer and touches its owner's alone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from proxypool.config.settings import Settings
from proxypool.leases.build import build_pool, build_sessions
from proxypool.leases.operations import lease_operations, session_operations
from proxypool.leases.pool import Pool, Request
from schemathesis.generation import GenerationMode

from functions.lease import app
from tests.support.any_request import OPERATIONS, event_of, modes
from tests.support.leases import a_pool, a_record
from tests.support.openapi import assert_documented

HELD: dict[str, Any] = {"cookies": [], "tokens": {"csrf": "bob's"}, "headers": {}}


def live_name(pool: Pool, route: str) -> str:
    """An id that is ann's: of a live lease, or of a session that may be there."""
    if route.endswith("/sessions/{id}"):
        return "shop"
    leases = pool.list_leases("ann") or pool.acquire("ann", Request(ttl_seconds=60))[0]
    return leases[0].id


ROUTES = [*(row.route for row in lease_operations(Settings())), *(row.route for row in session_operations())]


@pytest.mark.parametrize(("route", "mode"), modes(ROUTES))
def test_any_request_has_a_documented_answer_and_leaves_another_owners_leases(
    valkey_url: str, monkeypatch: pytest.MonkeyPatch, route: str, mode: GenerationMode
) -> None:
    """I3, I15, input 62: no crash and no stack trace; requests of ann never change leases of bob."""
    pool = a_pool(valkey_url, *(a_record(number) for number in range(4)))
    known = Settings(redis_url=valkey_url, pool=pool.cache.keys.pool, allow_loopback=True)
    pool, sessions = build_pool(known, pool.cache), build_sessions(known)
    monkeypatch.setattr(app, "settings", lambda: known)
    monkeypatch.setattr(app, "pool", lambda: pool)
    monkeypatch.setattr(app, "sessions", lambda: sessions)
    bobs = pool.acquire("bob", Request(ttl_seconds=900, session_id="shop"))[0]
    sessions.put("bob", "shop", content=HELD, version=0)

    @given(case=OPERATIONS[route].as_strategy(generation_mode=mode))
    @settings(max_examples=20, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
    def holds(case: Any) -> None:
        for path_id in ["", live_name(pool, route)] if "{id}" in route else [""]:
            event = event_of(route, case, path_id=path_id)
            event["headers"]["x-proxypool-owner"] = "ann"
            answer = app.handler(event, None)
            assert answer["statusCode"] < 500, answer
            if answer["statusCode"] != 405:
                assert_documented(route, answer["statusCode"], json.loads(answer.get("body") or "null"))

    holds()

    assert pool.list_leases("bob") == bobs
    kept = sessions.get("bob", "shop")
    assert {name: getattr(kept, name) for name in HELD} == HELD
