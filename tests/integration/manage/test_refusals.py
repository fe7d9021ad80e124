"""Error responses of the admin API."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import replace
from typing import Any

import pytest
from proxypool.manage import routes
from proxypool.proxies.proxy import Protocol, Proxy
from proxypool.sources.table import SourceTable

from tests.support.admin import JSON, Admin


@pytest.mark.parametrize(
    ("route", "body", "field"),
    [
        ("POST /sources", {"inline": "x", "owner": "bob"}, "owner"),
        ("POST /sources", {"inline": "x", "enabled": "true"}, "enabled"),
        ("POST /sources", {"inline": "x", "tags": ["a"] * 2}, "tags"),
        ("POST /sources", {"url": "http://169.254.169.254/x"}, "url"),
        ("POST /proxies", {"lines": "nonsense"}, "lines"),
        ("POST /proxies", {"lines": "127.0.0.1:80\n169.254.169.254:80", "kind": 5}, "kind"),
        ("POST /proxies", {"lines": "169.254.169.254:80"}, "lines"),
        ("POST /proxies", {}, "lines"),
        ("PATCH /settings", {"paused": 1}, "paused"),
        ("PATCH /settings", {"owner_quota": 10**6}, "owner_quota"),
        ("PATCH /settings", {"owner_quota": True}, "owner_quota"),
        ("PATCH /proxies/{id}", {"tags": ["A{x}"]}, "tags"),
        ("PATCH /proxies/{id}", {"status": "active"}, "status"),
        ("PATCH /proxies/{id}", {"slots": 0}, "slots"),
        ("PATCH /proxies/{id}", {"slots": 10_001}, "slots"),
        ("POST /proxies/{id}/restore", {"force": True}, "force"),
        ("POST /sources/{id}/scrape", {"owner": "bob"}, "owner"),
    ],
    ids=str,
)
def test_an_invalid_field_is_named(admin: Admin, route: str, body: dict[str, Any], field: str) -> None:
    """Inputs 1, 55, 56, 61, 63."""
    (proxy_id,) = admin.add(Proxy(Protocol.HTTP, "8.8.8.8", 80))
    admin("POST /sources", {"id": "list", "inline": "x"})

    status, problem = admin(route, body, name="list" if "sources" in route else proxy_id)

    assert status == 422
    assert [error["field"] for error in problem["errors"]] == [field]


@pytest.mark.parametrize(
    ("parts", "status"),
    [
        ({"body": "[" * 100}, 400),
        ({"body": '{"lines":' + "[" * 20 + "]" * 20 + "}"}, 400),
        ({"body": '{"lines":"a","lines":"b"}'}, 400),
        ({"body": "[]"}, 400),
        ({"body": ""}, 400),
        ({"body": "{}", "headers": {"content-type": "text/plain"}}, 415),
        ({"body": "{}", "headers": {}}, 415),
        ({"body": "{}", "headers": JSON | {"content-encoding": "gzip"}}, 400),
        ({"body": base64.b64encode(b'{"lines":"\xff"}').decode(), "isBase64Encoded": True}, 400),
        ({"body": '{"lines":"\ud800"}'}, 400),
        ({"body": '{"lines":"' + "x" * 70_000 + '"}'}, 413),
    ],
    ids=["brackets", "deep", "twice", "list", "empty", "type", "no type", "encoded", "utf-8", "surrogate", "large"],
)
@pytest.mark.parametrize(
    "route", ["POST /sources", "POST /proxies", "PATCH /settings", "PATCH /proxies/{id}", "PATCH /sources/{id}"]
)
def test_a_body_that_is_not_a_strict_json_object_is_refused(
    admin: Admin, route: str, parts: dict[str, Any], status: int
) -> None:
    """Input 62: no stack trace and no message of a library."""
    admin("POST /sources", {"id": "list", "inline": "x"})

    answer = admin.raw(route, name="list" if "sources" in route else "0" * 20, **parts)

    assert answer["statusCode"] == status
    assert answer["headers"]["content-type"] == "application/problem+json"
    assert not re.search("Traceback|Error|line [0-9]", answer["body"])


def test_another_method_is_405_with_allow_and_another_path_is_404(admin: Admin) -> None:
    response = admin.raw("PUT /sources/{id}", name="list")

    assert (response["statusCode"], response["headers"]["allow"]) == (405, "DELETE, GET, PATCH")
    assert json.loads(response["body"])["type"] == "method_not_allowed"
    for path in ("/", "/source", "/sources/", "/sources/a/b", "/stats", "/openapi", "/leases", "/jobs/../settings"):
        assert admin.raw(f"GET {path}")["statusCode"] == 404


@pytest.mark.parametrize("name", ["x" * 3000, "a}b", "..", "A", "%00"])
@pytest.mark.parametrize("route", ["GET /sources/{id}", "DELETE /proxies/{id}", "GET /tasks/{id}"])
def test_a_malformed_id_is_not_found_without_reading_a_table(admin: Admin, route: str, name: str) -> None:
    """Inputs 57 and 63."""
    admin.calls.clear()

    assert admin.raw(route, name=name)["statusCode"] == 404
    assert admin.calls <= {("StateTable", "dynamodb:GetItem")}


def test_a_request_without_an_identity_is_refused(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    """Input 61: on AWS the owner header is ignored."""
    monkeypatch.setattr(routes, "settings", lambda: replace(admin.settings, allow_loopback=False))

    for route in [row.route for row in routes.router(admin.settings).operations]:
        answer = admin.raw(route, {}, name="0" * 20, headers=JSON | {"x-proxypool-owner": "bob"})
        assert answer["statusCode"] == 401
        assert json.loads(answer["body"])["type"] == "unidentified"


def test_a_failing_table_is_a_503_without_details(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    """Input 62: no internal names in the response."""
    manager = routes.manager()
    monkeypatch.setattr(routes, "manager", lambda: replace(manager, sources=SourceTable("no-such-table")))

    answer = admin.raw("GET /sources")

    assert (answer["statusCode"], answer["headers"]["retry-after"]) == (503, "5")
    assert "no-such-table" not in answer["body"]
