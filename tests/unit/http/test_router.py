"""The router: dispatch of requests to operations, validation, and errors."""

from __future__ import annotations

import json
from typing import Any

import pytest
from proxypool.http.caller import Right, identify
from proxypool.http.operation import ApiRequest, Operation, Reply
from proxypool.http.router import Mount, Router, answer
from proxypool.http.web import Field


def echo(request: ApiRequest[str]) -> dict[str, Any]:
    """Returns the arguments of the call."""
    return {
        "service": request.service, "owner": request.caller.owner, "id": request.id, "body": dict(request.body),
        "query": dict(request.query), "headers": dict(request.headers),
    }  # fmt: skip


def crash(request: ApiRequest[str]) -> None:
    """A call with a bug."""
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


def request(
    route: str, body: object = None, *, stage: str = "$default", **parts: Any
) -> tuple[int, Any, dict[str, str]]:
    """Status, body and headers of the response."""
    method, _, path = route.partition(" ")
    event = {
        "rawPath": path if stage == "$default" else f"/{stage}{path}",
        "headers": {"content-type": "application/json"} | parts.pop("headers", {}),
        "requestContext": {"stage": stage, "http": {"method": method}} | parts.pop("requestContext", {}),
        "body": None if body is None else json.dumps(body),
    }  # fmt: skip
    response = answer(event | parts, lambda: ROUTER, on_error=lambda *_: None)
    return response["statusCode"], json.loads(response.get("body") or "null"), response["headers"]


@pytest.mark.parametrize(
    ("route", "status"),
    [
        ("GET /things", 200),
        ("GET /things/a", 200),
        ("DELETE /things/a", 204),
        ("POST /things/release", 202),  # a literal takes precedence over {id}
        ("GET /things/release", 200),
        ("POST /things/a/check", 202),
        ("GET /things/", 404),
        ("GET /thing", 404),
        ("GET /", 404),
        ("GET //things", 404),
        ("GET /things/a/b", 404),
        ("GET /things/A", 404),  # not a valid id
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
    assert request(route, stage=stage)[0] == status


@pytest.mark.parametrize(
    ("path", "path_id"), [("a%3Ab", "a:b"), ("a%2Fb", "a/b"), ("..", ".."), ("%2E%2e", "..")]
)  # fmt: skip
def test_an_id_is_decoded_once_after_the_path_is_split(path: str, path_id: str) -> None:
    """Input 63: an encoded slash is part of the id, never of the path."""
    assert request(f"GET /things/{path}")[1]["id"] == path_id
    assert request("GET /things/a%253Ab")[0] == 404  # "a%3Ab" is not a valid id


def test_a_405_lists_the_allowed_methods() -> None:
    status, problem, headers = request("PUT /things/release")

    assert (status, problem["type"], headers["allow"]) == (405, "method_not_allowed", "DELETE, GET, PATCH, POST")
    assert headers["content-type"] == "application/problem+json"


def test_the_call_gets_validated_values() -> None:
    """With defaults; a partial body has only the sent members; an absent header is None."""
    added = request("POST /things", {"size": 7}, headers={"idempotency-key": "k", "x-proxypool-owner": "ann"})

    assert added[:2] == (
        201,
        {"service": "service", "owner": "ann", "id": "", "body": {"size": 7, "name": "x"}, "query": {},
         "headers": {"Idempotency-Key": "k"}},
    )  # fmt: skip
    assert request("PATCH /things/a", {"name": "y"})[1]["body"] == {"name": "y"}
    assert request("GET /things", queryStringParameters={"size": "9"})[1]["query"] == {"size": 9, "name": "x"}
    assert request("POST /things", {}, headers={"idempotency-key": ""})[1]["headers"] == {"Idempotency-Key": None}


@pytest.mark.parametrize(
    ("route", "body", "parts", "status", "field"),
    [
        ("POST /things", {"size": 0}, {}, 422, "size"),
        ("POST /things", {"other": 1}, {}, 422, "other"),
        ("PATCH /things/a", {"size": "1"}, {}, 422, "size"),
        ("POST /things/a/check", {"now": True}, {}, 422, "now"),  # has no members
        ("POST /things", {}, {"headers": {"idempotency-key": "1"}}, 422, "Idempotency-Key"),
        ("GET /things", None, {"queryStringParameters": {"size": "x"}}, 422, "size"),
        ("POST /things", None, {}, 400, None),  # a body is required
    ],
)
def test_an_invalid_value_is_refused_before_the_call(
    route: str, body: object, parts: dict[str, Any], status: int, field: str | None
) -> None:
    """Inputs 55 and 62."""
    actual, problem, _ = request(route, body, **parts)

    assert actual == status
    assert [error["field"] for error in problem.get("errors", [])] == ([field] if field else [])


def test_an_unexpected_error_is_logged_and_its_message_not_disclosed() -> None:
    """Input 62."""
    logged: list[Exception] = []
    event = {"rawPath": "/crash", "requestContext": {"http": {"method": "GET"}}}

    response = answer(event, lambda: ROUTER, on_error=lambda error, _: logged.append(error))

    assert [str(error) for error in logged] == ["the password is s3cret"]
    assert (response["statusCode"], response["headers"]["retry-after"]) == (503, "5")
    assert json.loads(response["body"])["detail"] == "Internal error"


def test_a_caller_without_an_identity_cannot_probe_routes() -> None:
    """Input 61: 401 takes precedence over 404 and 405."""
    router = Router(Mount(ROWS, str), identify=lambda event: identify(event, local=False), admin_scope="admin")

    for path in ("/things", "/nothing"):
        event = {"rawPath": path, "requestContext": {"http": {"method": "PUT"}}}
        assert answer(event, lambda: router, on_error=lambda *_: None)["statusCode"] == 401


def test_a_route_without_a_right_cannot_be_created() -> None:
    """Input 61: no default."""
    parts: dict[str, Any] = {"route": "GET /a", "name": "a", "summary": "", "call": echo, "answers": {200: None}}

    with pytest.raises(TypeError, match="right"):
        Operation(**parts)
    with pytest.raises(TypeError, match="right"):
        Operation(**parts | {"right": None})
    with pytest.raises(ValueError, match="id_pattern"):
        Operation(**parts | {"route": "GET /a/{id}"}, right=Right.USER)
