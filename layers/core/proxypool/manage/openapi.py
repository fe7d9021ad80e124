"""The OpenAPI document: made of each module's table of operations, checked in as `proxypool/openapi.json`, served by `manage`.

A new route is a row in its module's `operations.py` and `make openapi`; a new table of operations is a line in `tables`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any, Final

from proxypool.errors import ApiError, Invalid, Paused, PoolEmpty, QuotaExceeded, Rebuilding, Unavailable
from proxypool.http.operation import INTEGER, TEXT, Operation, Schema, array, object_, one_of
from proxypool.http.web import Field, schema_of

VERSION: Final = "0.1.0"  # of the API: grows with what it takes and answers
FILE: Final = "openapi.json"
COME_AGAIN: Final = {PoolEmpty, QuotaExceeded, Rebuilding, Unavailable, Paused}  # these say when
INFO: Final = {
    "title": "proxypool",
    "version": VERSION,
    "summary": "Lease a proxy that works right now, yours alone for a while",
    "description": (
        "Requests are JSON in UTF-8, at most 64 KB, without duplicate keys; unknown members are refused. Errors are problem "
        "details (RFC 9457), told apart by `type`. The owner of a lease is who signed the request, or the token's subject. Limits are the default "
        "ones; a deployment may set lower ones. Before a request reaches the pool, the gateway may answer 403 or 429 by itself."
    ),
    "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
}
SECURITY: Final = {
    "sigv4": {
        "type": "apiKey",
        "in": "header",
        "name": "Authorization",
        "description": "AWS Signature Version 4, service `execute-api`. A stack on your own machine asks for none.",
    },
    "token": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "JWT",
        "description": "Of the deployment's issuer, at the address of its API for tokens; the subject is the owner.",
    },
}


def tables() -> tuple[tuple[Iterable[Operation[Any]], Mapping[str, Schema]], ...]:
    """Each module's operations, and the schemas that they name. Imported here: serving the document needs none of it."""
    from proxypool.config.settings import Settings
    from proxypool.jobs import operations as jobs
    from proxypool.leases import operations as leases
    from proxypool.manage import operations as manage
    from proxypool.manage import source_operations as sources

    return (
        ((*leases.lease_operations(Settings()), *leases.session_operations()), leases.schemas()),
        (sources.OPERATIONS, sources.schemas()),
        (jobs.operations(Settings()), jobs.schemas()),
        (manage.OPERATIONS, manage.schemas()),
    )


def document() -> dict[str, Any]:
    """The document, built from the tables."""
    paths: dict[str, Any] = {}
    schemas: dict[str, Schema] = {"Problem": _problem_schema()}
    answers: dict[str, Any] = {}
    for operations, named in tables():
        schemas |= named
        for operation in operations:
            paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation, answers)
    return {
        "openapi": "3.1.0",
        "info": INFO,
        "servers": [{"url": "/"}],
        "security": [{name: []} for name in SECURITY],
        "paths": paths,
        "components": {"securitySchemes": SECURITY, "schemas": schemas, "responses": dict(sorted(answers.items()))},
    }


def text() -> str:
    """The document as the file holds it."""
    return json.dumps(document(), indent=1, ensure_ascii=False) + "\n"


@cache
def checked_in() -> dict[str, Any]:
    """The document of the package."""
    found: dict[str, Any] = json.loads(files("proxypool").joinpath(FILE).read_text(encoding="utf-8"))
    return found


def _operation(operation: Operation[Any], answers: dict[str, Any]) -> dict[str, Any]:
    """One operation; the error responses that it needs are added to `answers`, one for all operations."""
    out: dict[str, Any] = {"operationId": operation.name, "tags": [operation.path.split("/")[1]]}
    out["summary"] = operation.summary
    if operation.description:
        out["description"] = operation.description
    parameters = [
        *([_parameter("path", "id", _id_field(operation))] if operation.id_pattern else []),
        *(_parameter("query", name, field) for name, field in operation.query.items()),
        *(_parameter("header", name, field) for name, field in operation.headers.items()),
    ]
    if parameters:
        out["parameters"] = parameters
    schema = operation.body_schema if operation.body is None else schema_of(_body_fields(operation))
    if schema is not None:
        out["requestBody"] = {
            "required": operation.is_body_required,
            "content": {"application/json": {"schema": schema}},
        }
    out["responses"] = {str(status): _answer(schema) for status, schema in operation.answers.items()}
    for status, errors in _by_status(operation.all_errors).items():
        name = "Or".join(error.__name__ for error in errors)
        answers[name] = _refusal(errors)
        out["responses"][str(status)] = {"$ref": f"#/components/responses/{name}"}
    return out


def _id_field(operation: Operation[Any]) -> Field:
    return Field(kind=str, required=True, pattern=operation.id_pattern)


def _body_fields(operation: Operation[Any]) -> Mapping[str, Field]:
    """The members of a partial body have no defaults: an absent one keeps its value."""
    fields = operation.body or {}
    return {name: replace(field, default=None) for name, field in fields.items()} if operation.is_partial else fields


def _parameter(place: str, name: str, field: Field) -> dict[str, Any]:
    schema = field.schema()
    out = {"name": name, "in": place, "required": field.required, "schema": schema}
    return out | ({"description": schema.pop("description")} if "description" in schema else {})


def _answer(schema: Schema | None) -> dict[str, Any]:
    if schema is None:
        return {"description": "Success"}
    return {"description": "Success", "content": {"application/json": {"schema": schema}}}


def _by_status(errors: Iterable[type[ApiError]]) -> dict[int, list[type[ApiError]]]:
    found: dict[int, list[type[ApiError]]] = {}
    for error in errors:
        found.setdefault(error.status, []).append(error)
    return found


def _refusal(errors: list[type[ApiError]]) -> dict[str, Any]:
    kinds = {"type": "object", "properties": {"type": one_of(*(error.type for error in errors))}}
    if Invalid in errors:
        kinds["required"] = ["errors"]
    out: dict[str, Any] = {
        "description": "; ".join(f"{error.type}: {error.title}" for error in errors),
        "content": {
            "application/problem+json": {"schema": {"allOf": [{"$ref": "#/components/schemas/Problem"}, kinds]}}
        },
    }
    if COME_AGAIN.intersection(errors):
        seconds = {"type": "integer", "minimum": 1, "maximum": 30}
        out["headers"] = {"Retry-After": {"description": "Seconds after which a retry may help", "schema": seconds}}
    return out


def _problem_schema() -> Schema:
    wrong = object_(field=TEXT, message=TEXT)
    members: dict[str, Schema] = {
        "type": one_of(*sorted(error.type for error in ApiError.__subclasses__())),
        "title": TEXT,
        "status": INTEGER,
        "detail": TEXT,
        "errors": {**array(wrong), "description": "What is wrong, field by field"},
        "reasons": {
            "type": "object",
            "additionalProperties": INTEGER,
            "description": "Why no proxy is free, with counts",
        },
    }
    return {"type": "object", "properties": members, "required": ["type", "title", "status"]}
