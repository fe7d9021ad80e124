"""Generated requests that match the OpenAPI document or violate it, as events of API Gateway."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

import schemathesis
from proxypool.manage import document
from schemathesis.core.result import Ok
from schemathesis.generation import GenerationMode

from tests.support.admin import JSON

DOCUMENT = {name: part for name, part in document.load_openapi().items() if name != "security"}  # callers are known
SCHEMA = schemathesis.openapi.from_dict(DOCUMENT)
OPERATIONS = {
    f"{found.ok().method.upper()} {found.ok().path}": found.ok()
    for found in SCHEMA.get_all_operations()
    if isinstance(found, Ok)
}
"""The operations for which schemathesis generates cases, by route key."""


def modes(routes: Iterable[str]) -> list[tuple[str, GenerationMode]]:
    """The generation modes of each route: valid requests, and invalid ones if the request has more than an id."""
    found = []
    for route in sorted(routes):
        method, _, path = route.partition(" ")
        operation = DOCUMENT["paths"][path][method.lower()]
        found.append((route, GenerationMode.POSITIVE))
        if "requestBody" in operation or any(one["in"] != "path" for one in operation.get("parameters", ())):
            found.append((route, GenerationMode.NEGATIVE))
    return found


def event_of(route: str, case: Any, *, path_id: str = "") -> dict[str, Any]:
    """The case as an event (payload 2.0); `path_id` replaces the case's own id."""
    given = path_id or str((case.path_parameters or {}).get("id", ""))
    body = case.body if isinstance(case.body, dict | list | str | int | float | bool) or case.body is None else None
    headers = {name.lower(): str(text) for name, text in (case.headers or {}).items()}
    return {
        "version": "2.0", "routeKey": route, "rawPath": route.partition(" ")[2].replace("{id}", quote(given, safe="")),
        "headers": headers | JSON,
        "queryStringParameters": {key: str(value) for key, value in (case.query or {}).items()},
        "body": json.dumps(body) if body is not None else None, "isBase64Encoded": False,
        "requestContext": {"stage": "$default", "http": {"method": route.partition(" ")[0]}},
    }  # fmt: skip
