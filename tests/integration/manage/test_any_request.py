"""Whatever fits the document's schemas, and much that does not, gets a documented answer: no route fails by what it is told."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from proxypool.manage import openapi, routes
from schemathesis.core.result import Ok
from schemathesis.generation import GenerationMode

from functions.manage import app
from tests.support.admin import JSON, Admin
from tests.support.openapi import assert_documented

SCHEMA = schemathesis.openapi.from_dict(openapi.checked_in())
OPERATIONS = {
    f"{found.ok().method.upper()} {found.ok().path}": found.ok()
    for found in SCHEMA.get_all_operations()
    if isinstance(found, Ok)
}


def event_of(route: str, case: Any) -> dict[str, Any]:
    """The case as API Gateway hands it over."""
    name = quote(str((case.path_parameters or {}).get("id", "")), safe="")
    body = case.body if isinstance(case.body, dict | list | str | int | float | bool) or case.body is None else None
    return {
        "version": "2.0", "routeKey": route, "rawPath": route.partition(" ")[2].replace("{id}", name),
        "headers": JSON,
        "queryStringParameters": {key: str(value) for key, value in (case.query or {}).items()},
        "body": json.dumps(body) if body is not None else None, "isBase64Encoded": False,
        "requestContext": {"stage": "$default", "http": {"method": route.partition(" ")[0]}},
    }  # fmt: skip


@pytest.mark.parametrize("mode", list(GenerationMode))
@pytest.mark.parametrize("route", sorted(routes.ROUTES))
def test_any_request_has_a_documented_answer(admin: Admin, route: str, mode: GenerationMode) -> None:
    """Input 62: neither a crash nor a stack trace."""

    @given(case=OPERATIONS[route].as_strategy(generation_mode=mode))
    @settings(max_examples=8, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
    def holds(case: Any) -> None:
        answer = app.handler(event_of(route, case), None)
        assert answer["statusCode"] < 500, answer
        if answer["statusCode"] != 405:
            assert_documented(route, answer["statusCode"], json.loads(answer.get("body") or "null"))

    holds()
