"""Each route × kind of caller × stage, on both APIs: served or refused."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from proxypool.config.settings import Settings
from proxypool.leases.build import build_pool, build_sessions
from proxypool.manage import routes

from functions.lease import app as lease
from functions.manage import app as manage
from tests.support.admin import JSON, Admin
from tests.support.leases import a_pool

SCOPE = "proxypool/admin"
OPERATORS = ("/sources", "/settings", "/tasks", "/domains", "/pool")
IDS = {"leases": "0" * 32 + ".1", "sources": "none", "domains": "none.example"}  # ids of nothing


def _jwt(**claims: str) -> dict[str, Any]:
    return {"authorizer": {"jwt": {"claims": claims, "scopes": None}}}


IAM = {"authorizer": {"iam": {"userId": "AROAEXAMPLE:session"}}}
ROLES: dict[str, tuple[dict[str, Any], bool, str]] = {
    "an IAM role": (IAM, False, "all"),  # API Gateway has evaluated its policy
    "an IAM role, local stack": (IAM, True, "all"),
    "a developer, local stack": ({}, True, "all"),
    "a token": (_jwt(sub="ann"), False, "users"),
    "a token, local stack": (_jwt(sub="ann"), True, "users"),
    "a token of another scope": (_jwt(sub="ann", scope="read proxypool/administrator"), False, "users"),
    "a token with the scope": (_jwt(sub="root", scope=f"read {SCOPE}"), False, "all"),
    "no identity": ({}, False, "none"),
    "a token without a subject": (_jwt(scope=SCOPE), False, "none"),
    "a token with an IAM role ID": (_jwt(sub="AROAEXAMPLEEXAMPLE12345", scope=SCOPE), True, "none"),
}


def _is_users(route: str) -> bool:
    """Independent of the tables of operations: other paths, and changes of proxies, are for operators."""
    method, _, path = route.partition(" ")
    return not path.startswith(OPERATORS) and (not path.startswith("/proxies") or method == "GET")


def _event(route: str, stage: str, context: dict[str, Any]) -> dict[str, Any]:
    method, _, path = route.partition(" ")
    path = path.replace("{id}", IDS.get(path.split("/")[1], "0" * 20))
    return {
        "version": "2.0", "routeKey": "$default", "rawPath": path if stage == "$default" else f"/{stage}{path}",
        "headers": JSON | {"x-proxypool-owner": "other"}, "body": "[]",  # an invalid body, so that no call has an effect
        "requestContext": {"stage": stage, "http": {"method": method}} | context,
    }  # fmt: skip


def _expected(route: str, allowed: str) -> str:
    if allowed == "none":
        return "401"
    return "served" if allowed == "all" or _is_users(route) else "403"


@pytest.mark.parametrize("gateway_stage", ["$default", "prod"])
@pytest.mark.parametrize("role", ROLES)
def test_a_caller_is_served_only_the_routes_of_its_right(
    admin: Admin, valkey_url: str, monkeypatch: pytest.MonkeyPatch, role: str, gateway_stage: str
) -> None:
    """Input 61: by the resolved route, so that a stage prefix does not bypass the check."""
    context, is_local, allowed = ROLES[role]
    pool = a_pool(valkey_url)
    config = replace(
        admin.settings, admin_scope=SCOPE, allow_loopback=is_local, redis_url=valkey_url, pool=pool.cache.keys.pool
    )
    for module in (routes, lease):
        monkeypatch.setattr(module, "settings", lambda: config)
    monkeypatch.setattr(lease, "pool", lambda: build_pool(config, pool.cache))
    monkeypatch.setattr(lease, "sessions", lambda: build_sessions(config))
    functions = ((manage, routes.router(config)), (lease, lease.router(config)))

    results, expected = {}, {}
    for function, router in functions:
        for route in [row.route for row in router.operations]:
            answer = function.handler(_event(route, gateway_stage, context), None)
            status = answer["statusCode"]
            results[route] = (
                str(status) if status in (401, 403) else "served" if status < 500 else json.loads(answer["body"])
            )
            expected[route] = _expected(route, allowed)

    assert {"POST /leases", "GET /sessions/{id}", "POST /jobs", "PATCH /settings"} <= results.keys()
    assert results == expected


def test_an_unknown_path_with_a_stage_prefix_is_not_found(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    """Input 61: only the prefix of the request's own stage is removed."""
    config: Settings = replace(admin.settings, admin_scope=SCOPE)
    monkeypatch.setattr(routes, "settings", lambda: config)
    event = _event("GET /settings", "prod", _jwt(sub="ann"))

    for raw in (
        "/prod/prod/settings",
        "/test/settings",
        "//settings",
        "/prod//settings",
        "/settings/",
        "/prod/settings/",
    ):
        assert manage.handler(event | {"rawPath": raw}, None)["statusCode"] == 404
    assert manage.handler(event | {"rawPath": "/settings"}, None)["statusCode"] == 403
