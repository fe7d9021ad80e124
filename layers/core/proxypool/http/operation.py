"""A route of the API, stated once: the call, the right it requires, what it reads, what it answers.

Each module that answers HTTP keeps a table of operations (`operations.py`). The router answers requests from it, and
`manage/openapi.py` makes the OpenAPI document from it. `lease` imports this at its cold start: standard library only, and as
little generated code as possible (a frozen dataclass takes up to a millisecond to make).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from proxypool.errors import (
    ApiError,
    Forbidden,
    Invalid,
    NotFound,
    NotJson,
    TooLarge,
    Unavailable,
    Unidentified,
    UnsupportedMediaType,
)
from proxypool.http.caller import Caller, Right
from proxypool.http.web import MAX_BODY_BYTES, Field

Schema = Mapping[str, Any]
Service = TypeVar("Service")

TEXT: Final[Schema] = {"type": "string"}
INTEGER: Final[Schema] = {"type": "integer"}
NUMBER: Final[Schema] = {"type": "number"}
BOOLEAN: Final[Schema] = {"type": "boolean"}
INSTANT: Final[Schema] = {"type": "string", "format": "date-time"}
FRACTION: Final[Schema] = {"type": "number", "minimum": 0, "maximum": 1}
ANYTHING: Final[Schema] = {}


class ApiRequest(Generic[Service]):
    """One request as an operation's call gets it: the values are read and checked as the operation declares them.

    `id` is the {id} of the path, "" without one; `headers` are by their declared names.
    """

    __slots__ = ("body", "caller", "headers", "id", "query", "service")

    def __init__(
        self,
        *,
        service: Service,
        caller: Caller,
        id: str,  # noqa: A002
        body: Mapping[str, Any],
        query: Mapping[str, Any],
        headers: Mapping[str, Any],
    ) -> None:
        self.service = service
        self.caller = caller
        self.id = id
        self.body = body
        self.query = query
        self.headers = headers


class Reply:
    """The result of a call that may answer with another status than the operation's first one."""

    __slots__ = ("body", "status")

    def __init__(self, status: int, body: object) -> None:
        self.status = status
        self.body = body


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Operation(Generic[Service]):
    """One route. `right` has no default: a route that does not say who may call it cannot be made."""

    route: str  # e.g. "POST /leases/{id}/renew"
    name: str  # the operationId, a generated client's method: never changes
    summary: str
    right: Right
    call: Callable[[ApiRequest[Service]], object]  # returns the body as a JSON value (None for no body), or a Reply
    answers: Mapping[int, Schema | None]  # by status, the usual success first; None: no body
    description: str = ""
    id_pattern: str = ""  # of the {id} in the path; another id is NotFound before the call
    body: Mapping[str, Field] | None = None
    body_schema: Schema | None = None  # instead of `body`: any JSON object, which the call checks
    is_body_required: bool = True
    is_partial: bool = False  # the call gets only the members that the body has, not the defaults of the others
    max_body_bytes: int = MAX_BODY_BYTES
    query: Mapping[str, Field] = field(default_factory=dict)
    headers: Mapping[str, Field] = field(default_factory=dict)
    errors: tuple[type[ApiError], ...] = ()  # beside those that follow from the rest

    def __post_init__(self) -> None:
        if not isinstance(self.right, Right):
            raise TypeError(f"{self.route}: right must be a Right")
        if ("{id}" in self.route) != bool(self.id_pattern):
            raise ValueError(f"{self.route}: id_pattern belongs to a path with {{id}}")

    @property
    def method(self) -> str:
        """In capitals."""
        return self.route.partition(" ")[0]

    @property
    def path(self) -> str:
        """The template, with {id} for its variable."""
        return self.route.partition(" ")[2]

    @property
    def status(self) -> int:
        """Of the usual success."""
        return next(iter(self.answers))

    @property
    def all_errors(self) -> list[type[ApiError]]:
        """The errors that it may answer with, by status."""
        found: list[type[ApiError]] = [Unidentified, Unavailable, *self.errors]
        if self.right is Right.OPERATOR:
            found.append(Forbidden)
        if self.id_pattern:
            found.append(NotFound)
        if self.body is not None or self.body_schema is not None:
            found += [NotJson, TooLarge, UnsupportedMediaType, Invalid]
        elif self.query or self.headers:
            found.append(Invalid)
        return sorted(set(found), key=lambda error: (error.status, error.type))


def object_(**members: Schema) -> Schema:
    """An object with exactly these members, all required."""
    return {
        "type": "object",
        "properties": dict(members),
        "required": list(members),
        "additionalProperties": False,
    }


def array(schema: Schema) -> Schema:
    """A list of such values."""
    return {"type": "array", "items": dict(schema)}


def map_(schema: Schema) -> Schema:
    """An object of any names, with such values."""
    return {"type": "object", "additionalProperties": dict(schema)}


def one_of(*texts: str) -> Schema:
    """One of these texts."""
    return {"type": "string", "enum": [str(text) for text in texts]}


def nullable(schema: Schema) -> Schema:
    """Such a value, or null."""
    if "type" not in schema:
        return {"oneOf": [dict(schema), {"type": "null"}]}
    out = {**schema, "type": [schema["type"], "null"]}
    return out | ({"enum": [*schema["enum"], None]} if "enum" in schema else {})


def ref(name: str) -> Schema:
    """A named schema of the document."""
    return {"$ref": f"#/components/schemas/{name}"}
