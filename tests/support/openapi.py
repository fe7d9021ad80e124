"""Validates responses against the OpenAPI document."""

from __future__ import annotations

from typing import Any

import jsonschema  # type: ignore[import-untyped]
from proxypool.manage import openapi


def assert_documented(route: str, status: int, body: Any) -> None:
    """Raises AssertionError for an undocumented status, and ValidationError for a body that violates its schema."""
    document = openapi.checked_in()
    method, _, path = route.partition(" ")
    answers = document["paths"][path][method.lower()]["responses"]
    assert str(status) in answers, f"{route} does not document {status}"
    answer = answers[str(status)]
    if "$ref" in answer:
        answer = document["components"]["responses"][answer["$ref"].rpartition("/")[2]]
    if "content" not in answer:
        assert body is None
        return
    (content,) = answer["content"].values()
    schema = {**content["schema"], "components": document["components"]}
    jsonschema.Draft202012Validator(schema).validate(body)
