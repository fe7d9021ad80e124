"""The router: which operation a request reaches, with which values, and which error it gets instead."""

from __future__ import annotations

import json
from typing import Any

import pytest
from proxypool.http.caller import Right, identify
from proxypool.http.operation import ApiRequest, Operation, Reply
from proxypool.http.router import Mount, Router, answer
from proxypool.http.web import Field


def echo(request: ApiRequest[str]) -> dict[str, Any]:
    """What the call was given."""
    return {
        "service": request.service, "owner": request.caller.owner, "id": request.id, "body": dict(request.body),
        "query": dict(request.query), "headers": dict(request.headers),
    }  # fmt: skip


def crash(request: ApiRequest[str]) -> None:
    """A call with a defect."""
    raise RuntimeError("the password is s3cret")


SIZE = {"size": Field(kind=int, default=5, minimum=1), "name": Field(kind=str, default="x")}
ROWS: tuple[Operation[str], ...] = (
    Operation(route="GET /things", name="list", summary="", right=Right.USER, call=echo, query=SIZE, answers={200: None}),
    Operation(
        route="POST /things", name="add", summary="", right=Right.OPERATOR, call=echo, body=SIZE,
        headers={"Idempotency-Key": Field(kind=str, pattern="[a-z]+")}, answers={201: None},
    ),
    Operation(
        route="GET /things/{id}", name="read", summary="", right=Right.USER, call=echo, id_pattern="[a-z:/.]{1,9}", answers={200: None}
    ),
    Operation(
        route="PATCH /things/{id}", name="change", summary="", right=Right.OPERATOR, call=echo, id_pattern="[a-z]{1,9}",
        body=SIZE, is_partial=True, answers={200: None},
    ),
    Operation(
        route="POST /things/release", name="release", summary="", right=Right.USER, call=lambda _: Reply(202, "all"), answers={200: None}
    ),
    Operation(
        route="DELETE /things/{id}", name="drop", summary="", right=Right.USER, call=lambda _: None, id_pattern="[a-z]{1,9}",
        answers={204: None},
    ),
    Operation(
        route="POST /things/{id}/check", name="check", summary="", right=Right.OPERATOR, call=echo, id_pattern="[a-z]{1,9}",
        body={}, is_body_required=False, answers={202: None},
    ),
    Operation(route="GET /crash", name="crash", summary="", right=Right.USER, call=crash, answers={200: None}),
)  # fmt: skip
ROUTER = Router(Mount(ROWS, lambda: "service"), identify=lambda event: identify(event, local=True), admin_scope="admin")


def ask(route: str, body: object = None, *, stage: str = "$default", **parts: Any) -> tuple[int, Any, dict[str, str]]:
    """Status, body and headers of the response."""
    method, _, path = route.partition(" ")
    event = {
        "rawPath": path if stage == "$default" else f"/{stage}{path}",
        "headers": {"content-type": "application/json"} | parts.pop("headers", {}),
        "requestContext": {"stage": stage, "http": {"method": method}} | parts.pop("requestContext", {}),
        "body": None if body is None else json.dumps(body),
    }  # fmt: skip
    found = answer(event | parts, lambda: ROUTER, on_error=lambda *_: None)
    return found["statusCode"], json.loads(found.get("body") or "null"), found["headers"]


@pytest.mark.parametrize(
    ("route", "status"),
    [
        ("GET /things", 200),
        ("GET /things/a", 200),
        ("DELETE /things/a", 204),
        ("POST /things/release", 202),  # the literal goes before {id}
        ("GET /things/release", 200),
        ("POST /things/a/check", 202),
        ("GET /things/", 404),
        ("GET /thing", 404),
        ("GET /", 404),
        ("GET //things", 404),
        ("GET /things/a/b", 404),
        ("GET /things/A", 404),  # no such id can be
        ("GET /things/a%00", 404),
        ("GET /things/../things", 404),
        ("GET /things/a/../b", 404),
        ("PUT /things", 405),
        ("HEAD /things", 405),
        ("OPTIONS /things/a", 405),
    ],
)
@pytest.mark.parametrize("stage", ["$default", "prod"])
def test_a_request_reaches_the_operation_of_its_method_and_path(route: str, status: int, stage: str) -> None:
    assert ask(route, stage=stage)[0] == status


@pytest.mark.parametrize(
    ("path", "path_id"), [("a%3Ab", "a:b"), ("a%2Fb", "a/b"), ("..", ".."), ("%2E%2e", "..")]
)  # fmt: skip
def test_an_id_is_decoded_once_after_the_path_was_split(path: str, path_id: str) -> None:
    """Input 63: an encoded slash is part of the id, never of the path."""
    assert ask(f"GET /things/{path}")[1]["id"] == path_id
    assert ask("GET /things/a%253Ab")[0] == 404  # "a%3Ab" fits no id


def test_a_path_with_other_methods_says_which() -> None:
    status, problem, headers = ask("PUT /things/release")

    assert (status, problem["type"], headers["allow"]) == (405, "method_not_allowed", "DELETE, GET, PATCH, POST")
    assert headers["content-type"] == "application/problem+json"


def test_the_call_gets_values_as_the_operation_declares_them() -> None:
    """Defaults filled in; of a partial body only what was sent; an absent header is None."""
    added = ask("POST /things", {"size": 7}, headers={"idempotency-key": "k", "x-proxypool-owner": "ann"})

    assert added[:2] == (
        201,
        {"service": "service", "owner": "ann", "id": "", "body": {"size": 7, "name": "x"}, "query": {},
         "headers": {"Idempotency-Key": "k"}},
    )  # fmt: skip
    assert ask("PATCH /things/a", {"name": "y"})[1]["body"] == {"name": "y"}
    assert ask("GET /things", queryStringParameters={"size": "9"})[1]["query"] == {"size": 9, "name": "x"}
    assert ask("POST /things", {}, headers={"idempotency-key": ""})[1]["headers"] == {"Idempotency-Key": None}


@pytest.mark.parametrize(
    ("route", "body", "parts", "status", "field"),
    [
        ("POST /things", {"size": 0}, {}, 422, "size"),
        ("POST /things", {"other": 1}, {}, 422, "other"),
        ("PATCH /things/a", {"size": "1"}, {}, 422, "size"),
        ("POST /things/a/check", {"now": True}, {}, 422, "now"),  # takes no member
        ("POST /things", {}, {"headers": {"idempotency-key": "1"}}, 422, "Idempotency-Key"),
        ("GET /things", None, {"queryStringParameters": {"size": "x"}}, 422, "size"),
        ("POST /things", None, {}, 400, None),  # a body is required
    ],
)
def test_a_value_that_does_not_fit_its_declaration_never_reaches_the_call(
    route: str, body: object, parts: dict[str, Any], status: int, field: str | None
) -> None:
    """Inputs 55 and 62."""
    found, problem, _ = ask(route, body, **parts)

    assert found == status
    assert [error["field"] for error in problem.get("errors", [])] == ([field] if field else [])


def test_a_defect_is_logged_and_answered_without_its_words() -> None:
    """Input 62: in one place, for each function."""
    seen: list[Exception] = []
    event = {"rawPath": "/crash", "requestContext": {"http": {"method": "GET"}}}

    found = answer(event, lambda: ROUTER, on_error=lambda error, _: seen.append(error))

    assert [str(error) for error in seen] == ["the password is s3cret"]
    assert (found["statusCode"], found["headers"]["retry-after"]) == (503, "5")
    assert json.loads(found["body"])["detail"] == "Internal error"


def test_who_has_no_identity_learns_nothing_of_the_routes() -> None:
    """Input 61: 401 goes before 404 and 405."""
    router = Router(Mount(ROWS, str), identify=lambda event: identify(event, local=False), admin_scope="admin")

    for path in ("/things", "/nothing"):
        event = {"rawPath": path, "requestContext": {"http": {"method": "PUT"}}}
        assert answer(event, lambda: router, on_error=lambda *_: None)["statusCode"] == 401


def test_a_route_that_does_not_say_who_may_call_it_cannot_be_made() -> None:
    """Input 61: there is no default that allows."""
    parts: dict[str, Any] = {"route": "GET /a", "name": "a", "summary": "", "call": echo, "answers": {200: None}}

    with pytest.raises(TypeError, match="right"):
        Operation(**parts)
    with pytest.raises(TypeError, match="right"):
        Operation(**parts | {"right": None})
    with pytest.raises(ValueError, match="id_pattern"):
        Operation(**parts | {"route": "GET /a/{id}"}, right=Right.USER)
