"""The OpenAPI document, built from the tables of operations."""

from __future__ import annotations

from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
import schemathesis
from proxypool.manage import document, openapi
from schemathesis.specs.openapi.definitions import OPENAPI_31

from tests.support.servers import ROOT

DOCUMENT = document.load_openapi()
OPERATIONS: list[tuple[str, dict[str, Any]]] = [
    (f"{method.upper()} {path}", item[method]) for path, item in DOCUMENT["paths"].items() for method in item
]


def test_the_checked_in_document_is_up_to_date() -> None:
    """Otherwise run `make openapi`."""
    file = ROOT / "layers/core/proxypool" / document.OPENAPI_FILE

    assert file.read_text(encoding="utf-8") == openapi.document_text()


def test_the_document_is_valid_openapi() -> None:
    """By the schema of the specification, and for schemathesis."""
    jsonschema.validate(DOCUMENT, OPENAPI_31)

    loaded = schemathesis.openapi.from_dict(DOCUMENT)
    assert len(list(loaded.get_all_operations())) == len(OPERATIONS)


def test_every_schema_is_valid_and_every_reference_is_defined() -> None:
    """JSON schema 2020-12."""
    for schema in DOCUMENT["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)

    for name in _references(DOCUMENT):
        value: Any = DOCUMENT
        for part in name.removeprefix("#/").split("/"):
            value = value[part]


@pytest.mark.parametrize(("route", "operation"), OPERATIONS, ids=[route for route, _ in OPERATIONS])
def test_each_operation_has_what_client_generators_need(route: str, operation: dict[str, Any]) -> None:
    """A unique name, its errors, and the parameter of its path."""
    assert [other["operationId"] for _, other in OPERATIONS].count(operation["operationId"]) == 1
    assert {"401", "503"} <= set(operation["responses"])
    assert ("404" in operation["responses"]) == ("{" in route)
    assert ("422" in operation["responses"]) == bool(
        "requestBody" in operation
        or [parameter for parameter in operation.get("parameters", []) if parameter["in"] != "path"]
    )


def _references(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return own.union(*map(_references, value.values()))
    return set().union(*map(_references, value)) if isinstance(value, list) else set()
