"""The lease routes respond as documented by OpenAPI."""

from __future__ import annotations

import json
from typing import Any

import pytest
from proxypool.config.settings import Settings
from proxypool.leases.operations import lease_operations
from proxypool.leases.pool import Pool

from tests.support.leases import a_pool, a_record, an_event, respond
from tests.support.openapi import assert_documented

SETTINGS = Settings(allow_loopback=True)


def asked(pool: Pool, route: str, body: object = None, *, lease_id: str = "", **headers: str) -> tuple[int, Any]:
    """The answer of a route, held against the document."""
    response = respond(an_event(route, body, lease_id=lease_id, **headers), pool, SETTINGS)
    value = json.loads(response.get("body") or "null")
    assert_documented(route, response["statusCode"], value)
    return response["statusCode"], value


def test_every_response_of_a_lease_is_documented(valkey_url: str) -> None:
    """One route after the other, and what they refuse."""
    pool = a_pool(valkey_url, a_record(1), a_record(2), owner_quota=2)

    pinned = asked(pool, "POST /leases", {"session_id": "s"})
    asked(pool, "DELETE /leases/{id}", lease_id=pinned[1]["id"])
    one = asked(pool, "POST /leases", {"ttl_seconds": 30}, idempotency_key="k")
    seen = [
        pinned,
        one,
        asked(pool, "POST /leases", {"ttl_seconds": 30}, idempotency_key="k"),
        asked(pool, "POST /leases", {"count": 2}, idempotency_key="k"),
        asked(pool, "POST /leases", {"count": 2, "country": "de"}, x_proxypool_owner="bob"),
        asked(pool, "POST /leases", {"country": "fr"}),
        asked(pool, "POST /leases", "{"),
        asked(pool, "POST /leases", {"count": 0}),
        asked(pool, "GET /leases"),
        asked(pool, "GET /leases/{id}", lease_id=one[1]["id"]),
        asked(pool, "POST /leases/{id}/renew", lease_id=one[1]["id"]),
        asked(pool, "POST /leases/{id}/report", {"outcome": "ok"}, lease_id=one[1]["id"]),
        asked(pool, "POST /leases/{id}/report", {}, lease_id=one[1]["id"]),
        asked(pool, "POST /leases/{id}/release", lease_id=one[1]["id"]),
        asked(pool, "DELETE /leases/{id}", lease_id=one[1]["id"]),
    ]

    assert [status for status, _ in seen] == [201, 201, 200, 409, 201, 409, 400, 422, 200, 200, 200, 204, 422, 204, 404]


@pytest.mark.parametrize("route", [row.route for row in lease_operations(SETTINGS)])
def test_errors_of_a_closed_pool_and_of_another_owner_are_documented(valkey_url: str, route: str) -> None:
    """503 while the cache is filled again, 401 without an identity."""
    lease_id = "0" * 32 + ".1" if "{id}" in route else ""
    bodies = {"POST /leases/{id}/report": {"outcome": "ok"}, "POST /leases/release": {"leases": ["0" * 32 + ".1"]}}
    body = bodies.get(route)
    pool = a_pool(valkey_url, is_open=False)

    closed = asked(pool, route, body, lease_id=lease_id)
    stranger = respond(an_event(route, body, lease_id=lease_id), pool, Settings())

    assert closed[0] in (200, 404, 503)
    assert_documented(route, stranger["statusCode"], json.loads(stranger["body"]))
