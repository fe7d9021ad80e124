"""Validates responses against the OpenAPI document."""

from __future__ import annotations

from typing import Any

import jsonschema  # type: ignore[import-untyped]
from proxypool.manage import document


def assert_documented(route: str, status: int, body: Any) -> None:
    """Raises AssertionError for an undocumented status, and ValidationError for a body that violates its schema."""
    whole = document.load_openapi()
    method, _, path = route.partition(" ")
    answers = whole["paths"][path][method.lower()]["responses"]
    assert str(status) in answers, f"{route} does not document {status}"
    answer = answers[str(status)]
    if "$ref" in answer:
        answer = whole["components"]["responses"][answer["$ref"].rpartition("/")[2]]
    if "content" not in answer:
        assert body is None
        return
    (content,) = answer["content"].values()
    schema = {**content["schema"], "components": whole["components"]}
    jsonschema.Draft202012Validator(schema).validate(body)
