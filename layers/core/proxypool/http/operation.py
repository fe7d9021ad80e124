"""Operations: one definition per API route, with its call, required right, parameters and responses.

Each room with routes has a table of operations (`operations.py`), from which the router dispatches requests and
`manage/openapi.py` builds the OpenAPI document. `lease` imports this during its cold start: standard library only, and
few frozen dataclasses (creating one takes up to a millisecond).
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
    """The argument of an operation's call: the request with its values parsed and validated as declared.

    `id` is the {id} of the path, "" without one; `headers` has the declared names as keys.
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
    """A result with an explicit status, for calls that do not always return the first status of the operation."""

    __slots__ = ("body", "status")

    def __init__(self, status: int, body: object) -> None:
        self.status = status
        self.body = body


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Operation(Generic[Service]):
    """One route. `right` has no default, so that no route is open by omission."""

    route: str  # e.g. "POST /leases/{id}/renew"
    name: str  # the operationId, a method name of generated clients: never changes
    summary: str
    right: Right
    call: Callable[[ApiRequest[Service]], object]  # returns the body as a JSON value (None for no body), or a Reply
    answers: Mapping[int, Schema | None]  # by status, the default first; None: no body
    description: str = ""
    id_pattern: str = ""  # regular expression for the {id} of the path; other ids are NotFound
    body: Mapping[str, Field] | None = None
    body_schema: Schema | None = None  # instead of `body`: any JSON object, validated by the call
    is_body_required: bool = True
    is_partial: bool = False  # absent members are left out instead of set to their defaults
    max_body_bytes: int = MAX_BODY_BYTES
    query: Mapping[str, Field] = field(default_factory=dict)
    headers: Mapping[str, Field] = field(default_factory=dict)
    errors: tuple[type[ApiError], ...] = ()  # in addition to those that follow from the other fields

    def __post_init__(self) -> None:
        if not isinstance(self.right, Right):
            raise TypeError(f"{self.route}: right must be a Right")
        if ("{id}" in self.route) != bool(self.id_pattern):
            raise ValueError(f"{self.route}: id_pattern is required if and only if the path has {{id}}")

    @property
    def method(self) -> str:
        """The HTTP method, in upper case."""
        return self.route.partition(" ")[0]

    @property
    def path(self) -> str:
        """The path template, e.g. /leases/{id}."""
        return self.route.partition(" ")[2]

    @property
    def status(self) -> int:
        """The default status."""
        return next(iter(self.answers))

    @property
    def all_errors(self) -> list[type[ApiError]]:
        """The possible errors, sorted by status."""
        errors: list[type[ApiError]] = [Unidentified, Unavailable, *self.errors]
        if self.right is Right.OPERATOR:
            errors.append(Forbidden)
        if self.id_pattern:
            errors.append(NotFound)
        if self.body is not None or self.body_schema is not None:
            errors += [NotJson, TooLarge, UnsupportedMediaType, Invalid]
        elif self.query or self.headers:
            errors.append(Invalid)
        return sorted(set(errors), key=lambda error: (error.status, error.type))


def object_(**members: Schema) -> Schema:
    """An object with exactly these members, all required."""
    return {
        "type": "object",
        "properties": dict(members),
        "required": list(members),
        "additionalProperties": False,
    }


def array(schema: Schema) -> Schema:
    """An array of values of this schema."""
    return {"type": "array", "items": dict(schema)}


def map_(schema: Schema) -> Schema:
    """An object with arbitrary names and values of this schema."""
    return {"type": "object", "additionalProperties": dict(schema)}


def one_of(*texts: str) -> Schema:
    """An enum of strings."""
    return {"type": "string", "enum": [str(text) for text in texts]}


def nullable(schema: Schema) -> Schema:
    """A value of this schema, or null."""
    if "type" not in schema:
        return {"oneOf": [dict(schema), {"type": "null"}]}
    out = {**schema, "type": [schema["type"], "null"]}
    return out | ({"enum": [*schema["enum"], None]} if "enum" in schema else {})


def ref(name: str) -> Schema:
    """A reference to a schema of the document."""
    return {"$ref": f"#/components/schemas/{name}"}
