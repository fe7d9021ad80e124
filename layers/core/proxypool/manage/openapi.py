"""Builds the OpenAPI document from the tables of operations. Checked in as `proxypool/openapi.json`, served by `manage`.

To add a route, add a row to an `operations.py` and run `make openapi`; a new table of operations is a line in `tables`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from proxypool.errors import ApiError, Invalid, Paused, PoolEmpty, QuotaExceeded, Rebuilding, Unavailable
from proxypool.http.operation import INTEGER, TEXT, Operation, Schema, array, object_, one_of
from proxypool.http.web import Field, schema_of

API_VERSION: Final = "0.1.0"  # of the API: increased with each change of requests or responses
RETRYABLE: Final = {PoolEmpty, QuotaExceeded, Rebuilding, Unavailable, Paused}  # with Retry-After
INFO: Final = {
    "title": "proxypool",
    "version": API_VERSION,
    "summary": "Lease a proxy that works right now, exclusive until it expires",
    "description": (
        "Requests are JSON in UTF-8, at most 64 KB, without duplicate keys; unknown members are refused. Errors are problem "
        "details (RFC 9457), distinguished by `type`. The owner of a lease is the signer of the request, or the subject of the token. The limits shown are the "
        "defaults; a deployment may set lower ones. API Gateway may answer 403 or 429 before a request reaches the pool."
    ),
    "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
}
SECURITY: Final = {
    "sigv4": {
        "type": "apiKey",
        "in": "header",
        "name": "Authorization",
        "description": "AWS Signature Version 4, service `execute-api`. The local stack does not require it.",
    },
    "token": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "JWT",
        "description": "A token of the configured issuer, for the URL of the token API; the subject is the owner.",
    },
}


def operation_tables() -> tuple[tuple[Iterable[Operation[Any]], Mapping[str, Schema]], ...]:
    """The operations and named schemas of each room. Imported lazily, because serving the document does not need them."""
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


def build_document() -> dict[str, Any]:
    """The document, built from the tables."""
    paths: dict[str, Any] = {}
    schemas: dict[str, Schema] = {"Problem": _problem_schema()}
    responses: dict[str, Any] = {}
    for operations, named in operation_tables():
        schemas |= named
        for operation in operations:
            paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation, responses)
    return {
        "openapi": "3.1.0",
        "info": INFO,
        "servers": [{"url": "/"}],
        "security": [{name: []} for name in SECURITY],
        "paths": paths,
        "components": {"securitySchemes": SECURITY, "schemas": schemas, "responses": dict(sorted(responses.items()))},
    }


def document_text() -> str:
    """The document as file content."""
    return json.dumps(build_document(), indent=1, ensure_ascii=False) + "\n"


def _operation(operation: Operation[Any], responses: dict[str, Any]) -> dict[str, Any]:
    """One operation; adds its error responses to `responses`, which are shared by all operations."""
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
    out["responses"] = {str(status): _response(schema) for status, schema in operation.answers.items()}
    for status, errors in _by_status(operation.all_errors).items():
        name = "Or".join(error.__name__ for error in errors)
        responses[name] = _error_response(errors)
        out["responses"][str(status)] = {"$ref": f"#/components/responses/{name}"}
    return out


def _id_field(operation: Operation[Any]) -> Field:
    return Field(kind=str, required=True, pattern=operation.id_pattern)


def _body_fields(operation: Operation[Any]) -> Mapping[str, Field]:
    """Members of a partial body have no defaults: an absent one is not changed."""
    fields = operation.body or {}
    return {name: replace(field, default=None) for name, field in fields.items()} if operation.is_partial else fields


def _parameter(location: str, name: str, field: Field) -> dict[str, Any]:
    schema = field.schema()
    out = {"name": name, "in": location, "required": field.required, "schema": schema}
    return out | ({"description": schema.pop("description")} if "description" in schema else {})


def _response(schema: Schema | None) -> dict[str, Any]:
    if schema is None:
        return {"description": "Success"}
    return {"description": "Success", "content": {"application/json": {"schema": schema}}}


def _by_status(errors: Iterable[type[ApiError]]) -> dict[int, list[type[ApiError]]]:
    by_status: dict[int, list[type[ApiError]]] = {}
    for error in errors:
        by_status.setdefault(error.status, []).append(error)
    return by_status


def _error_response(errors: list[type[ApiError]]) -> dict[str, Any]:
    kinds = {"type": "object", "properties": {"type": one_of(*(error.type for error in errors))}}
    if Invalid in errors:
        kinds["required"] = ["errors"]
    out: dict[str, Any] = {
        "description": "; ".join(f"{error.type}: {error.title}" for error in errors),
        "content": {
            "application/problem+json": {"schema": {"allOf": [{"$ref": "#/components/schemas/Problem"}, kinds]}}
        },
    }
    if RETRYABLE.intersection(errors):
        seconds = {"type": "integer", "minimum": 1, "maximum": 30}
        out["headers"] = {"Retry-After": {"description": "Seconds after which a retry may help", "schema": seconds}}
    return out


def _problem_schema() -> Schema:
    field_error = object_(field=TEXT, message=TEXT)
    members: dict[str, Schema] = {
        "type": one_of(*sorted(error.type for error in ApiError.__subclasses__())),
        "title": TEXT,
        "status": INTEGER,
        "detail": TEXT,
        "errors": {**array(field_error), "description": "The invalid fields, with messages"},
        "reasons": {
            "type": "object",
            "additionalProperties": INTEGER,
            "description": "Why no proxy is free, with counts",
        },
    }
    return {"type": "object", "properties": members, "required": ["type", "title", "status"]}
