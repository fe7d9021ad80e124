"""What an API module says of its routes: a table of operations, of which the OpenAPI document is made.

Each module that answers HTTP keeps its table beside its code, in `operations.py`; the functions do not read them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from proxypool.errors import (
    ApiError,
    Invalid,
    NotFound,
    NotJson,
    TooLarge,
    Unavailable,
    Unidentified,
    UnsupportedMediaType,
)
from proxypool.web import Field

Schema = Mapping[str, Any]

TEXT: Final[Schema] = {"type": "string"}
WHOLE: Final[Schema] = {"type": "integer"}
NUMBER: Final[Schema] = {"type": "number"}
TRUTH: Final[Schema] = {"type": "boolean"}
INSTANT: Final[Schema] = {"type": "string", "format": "date-time"}
SHARE: Final[Schema] = {"type": "number", "minimum": 0, "maximum": 1}
ANYTHING: Final[Schema] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One route: what it takes and what it answers. The errors that follow from these need no mention."""

    route: str  # as the HTTP API spells it, e.g. "POST /leases/{id}/renew"
    name: str  # of the method in a generated client; never changes
    summary: str
    answers: Mapping[int, Schema | None]  # None: no body
    description: str = ""
    body: Mapping[str, Field] | None = None
    schema: Schema | None = None  # of a body whose fields are not the whole story
    is_body_required: bool = True
    query: Mapping[str, Field] = field(default_factory=dict)
    headers: Mapping[str, Field] = field(default_factory=dict)
    errors: tuple[type[ApiError], ...] = ()

    @property
    def method(self) -> str:
        """In capitals."""
        return self.route.partition(" ")[0]

    @property
    def path(self) -> str:
        """With its variable in braces."""
        return self.route.partition(" ")[2]

    @property
    def all_errors(self) -> list[type[ApiError]]:
        """What it may answer besides success, by status."""
        found: list[type[ApiError]] = [Unidentified, Unavailable, *self.errors]
        if "{" in self.path:
            found.append(NotFound)
        if self.body is not None or self.schema is not None:
            found += [NotJson, TooLarge, UnsupportedMediaType, Invalid]
        elif self.query or self.headers:
            found.append(Invalid)
        return sorted(set(found), key=lambda error: (error.status, error.type))


def shape(**members: Schema) -> Schema:
    """An object with exactly these members, all of them always there."""
    return {
        "type": "object",
        "properties": dict(members),
        "required": list(members),
        "additionalProperties": False,
    }


def rows(schema: Schema) -> Schema:
    """A list of such values."""
    return {"type": "array", "items": dict(schema)}


def table(schema: Schema) -> Schema:
    """An object whose members are of one kind, by a name each."""
    return {"type": "object", "additionalProperties": dict(schema)}


def one_of(*texts: str) -> Schema:
    """One word of a closed set."""
    return {"type": "string", "enum": [str(text) for text in texts]}


def maybe(schema: Schema) -> Schema:
    """Such a value, or null."""
    if "type" not in schema:
        return {"oneOf": [dict(schema), {"type": "null"}]}
    out = {**schema, "type": [schema["type"], "null"]}
    return out | ({"enum": [*schema["enum"], None]} if "enum" in schema else {})


def ref(name: str) -> Schema:
    """A schema that has a name of its own in the document."""
    return {"$ref": f"#/components/schemas/{name}"}
