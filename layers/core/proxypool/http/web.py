"""HTTP as the functions see it: an API Gateway event (payload 2.0) in, a response dictionary out. Standard library only.

`lease` imports this at its cold start, so nothing here may import a vendor's library.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from proxypool.errors import ApiError, Invalid, NotJson, TooLarge, UnsupportedMediaType

MAX_BODY_BYTES: Final = 64 * 1024
MAX_NAME: Final = 64  # of an unknown member, in the answer that names it
MAX_DEPTH: Final = 16  # deeper JSON is refused before it is parsed

Event = Mapping[str, Any]
Response = dict[str, Any]


def respond(status: int, body: object = None, headers: Mapping[str, str] | None = None) -> Response:
    """A response with a JSON body (none for 204)."""
    kind = "application/problem+json" if status >= 400 else "application/json"
    out: Response = {"statusCode": status, "headers": {"content-type": kind, **(headers or {})}}
    if body is not None:
        out["body"] = json.dumps(body, separators=(",", ":"), ensure_ascii=False)
    return out


def problem(error: ApiError) -> Response:
    """The error as problem details, with the headers that go with it."""
    return respond(error.status, error.problem(), error.headers)


def header(event: Event, name: str) -> str | None:
    """A request header by its lower-case name (API Gateway lower-cases them)."""
    value = (event.get("headers") or {}).get(name)
    return value if isinstance(value, str) else None


def query(event: Event) -> dict[str, str]:
    """The query parameters, one value each."""
    return dict(event.get("queryStringParameters") or {})


def method(event: Event) -> str:
    """The request's method, in capitals."""
    return str(((event.get("requestContext") or {}).get("http") or {}).get("method", ""))


def path(event: Event) -> str:
    """The request's path without the stage, which API Gateway puts before it for every stage but `$default`."""
    found, stage = str(event.get("rawPath", "")), str((event.get("requestContext") or {}).get("stage") or "$default")
    prefix = f"/{stage}"
    return found[len(prefix) :] if stage != "$default" and f"{found}/".startswith(f"{prefix}/") else found


def body_object(event: Event, *, optional: bool = False, most: int = MAX_BODY_BYTES) -> dict[str, Any]:
    """The request's body as a JSON object; {} where it is empty and `optional`.

    Raises UnsupportedMediaType (another content type, or none), NotJson (syntax, encoding, duplicate keys, NaN, too deep) or
    TooLarge (over `most` bytes).
    """
    text = event.get("body") or ""
    if not text:
        if optional:
            return {}
        raise NotJson("the body is empty")
    kind = (header(event, "content-type") or "").partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        raise UnsupportedMediaType()
    if (header(event, "content-encoding") or "identity").lower() != "identity":
        raise NotJson("the body is encoded")
    raw = _decode(text) if event.get("isBase64Encoded") else text.encode("utf-8", "surrogatepass")
    if len(raw) > most:
        raise TooLarge(f"at most {most} bytes")
    return parse_object(raw)


def parse_object(raw: bytes) -> dict[str, Any]:
    """Strict JSON: an object in UTF-8, without duplicate keys, NaN, Infinity or lone surrogates; raises NotJson."""
    if _depth(raw) > MAX_DEPTH:
        raise NotJson("the JSON is nested too deep")
    try:
        value = json.loads(raw.decode(), object_pairs_hook=_unique, parse_constant=_no_constant)
        if b"\\u" in raw:
            json.dumps(value, ensure_ascii=False).encode()  # half a surrogate pair is no character: it has no UTF-8
    except (ValueError, RecursionError) as error:
        raise NotJson("the body is not JSON") from error
    if not isinstance(value, dict):
        raise NotJson("the body is not a JSON object")
    return value


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)  # the cold start of `lease` pays for the rest
class Field:
    """What one member of a request must be. `kind` is str, int, float, bool, list (of str, or of objects with `items`) or dict
    (its members are read apart).
    """

    kind: type
    default: Any = None
    required: bool = False
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    pattern: str = ""  # the whole text, or each item of a list
    max_items: int | None = None
    nullable: bool = False  # null says something else than absence does
    items: Mapping[str, Field] | None = None  # the members of a list's objects
    description: str = ""

    def schema(self) -> dict[str, Any]:
        """This field as JSON schema."""
        kind = _JSON_TYPES[self.kind]
        out: dict[str, Any] = {"type": [kind, "null"] if self.nullable else kind}
        text = (
            {"enum": list(self.choices)}
            if self.choices
            else {"pattern": f"^(?:{self.pattern})$"}
            if self.pattern
            else {}
        )
        if self.kind is list:
            of_text = {"type": "string"} | text
            out |= {"items": schema_of(self.items) if self.items else of_text, "uniqueItems": True}
            if self.max_items is not None:
                out["maxItems"] = self.max_items
        else:
            out |= text
        for name, value in (("minimum", self.minimum), ("maximum", self.maximum)):
            if value is not None:
                out[name] = value
        if self.default not in (None, (), {}):
            out["default"] = self.default
        if self.description:
            out["description"] = self.description
        return out


def read_fields(body: Mapping[str, Any], fields: Mapping[str, Field]) -> dict[str, Any]:
    """The values of a request, defaults filled in; raises Invalid naming every field that is wrong, unknown or missing."""
    errors: list[dict[str, str]] = [
        {"field": name[:MAX_NAME], "message": "unknown"} for name in body if name not in fields
    ]
    values: dict[str, Any] = {}
    for name, field in fields.items():
        if name not in body or body[name] is None:
            if field.required:
                errors.append({"field": name, "message": "required"})
            values[name] = field.default
            continue
        message = _wrong(body[name], field)
        if message:
            errors.append({"field": name, "message": message})
        else:
            values[name] = tuple(body[name]) if field.kind is list else field.kind(body[name])
    if errors:
        raise Invalid(errors)
    return values


def read_query(event: Event, fields: Mapping[str, Field]) -> dict[str, Any]:
    """The values of the query parameters, as `read_fields` has them; whole numbers and true/false are read from their text."""
    given: dict[str, Any] = {}
    for name, text in query(event).items():
        kind = fields[name].kind if name in fields else str
        if kind is int and re.fullmatch("0|[1-9][0-9]{0,8}", text):
            given[name] = int(text)
        elif kind is bool and text in ("true", "false"):
            given[name] = text == "true"
        else:
            given[name] = text
    return read_fields(given, fields)


def schema_of(fields: Mapping[str, Field]) -> dict[str, Any]:
    """A request body as JSON schema: what `read_fields` takes, and nothing else."""
    out: dict[str, Any] = {
        "type": "object",
        "additionalProperties": False,
        "properties": {name: field.schema() for name, field in fields.items()},
    }
    required = [name for name, field in fields.items() if field.required]
    return out | ({"required": required} if required else {})


_JSON_TYPES: Final = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array", dict: "object"}


def _wrong(value: Any, field: Field) -> str:
    if field.kind is list:
        return _wrong_list(value, field)
    accepted = (int, float) if field.kind is float else (field.kind,)
    if type(value) not in accepted:  # exactly: True is an int, too
        return f"must be {_JSON_TYPES[field.kind]}"
    if isinstance(value, str):
        return _wrong_text(value, field)
    if field.kind is dict:
        return ""
    least = -math.inf if field.minimum is None else field.minimum
    most = math.inf if field.maximum is None else field.maximum
    if not least <= value <= most:  # exact for integers of any size, which float() has not
        return f"must be from {field.minimum} to {field.maximum}"
    return ""


def _wrong_objects(value: list[Any], fields: Mapping[str, Field]) -> str:
    if not all(isinstance(item, dict) for item in value):
        return "must be a list of objects"
    for index, item in enumerate(value):
        try:
            read_fields(item, fields)
        except Invalid as error:
            first = error.problem()["errors"][0]
            return f"item {index}: {first['field']} {first['message']}"
    return ""


def _wrong_list(value: Any, field: Field) -> str:
    if not isinstance(value, list):
        return "must be a list"
    if field.max_items is not None and len(value) > field.max_items:
        return f"at most {field.max_items} items"
    if field.items:
        return _wrong_objects(value, field.items)
    if not all(isinstance(item, str) for item in value):
        return "must be a list of strings"
    if len(set(value)) != len(value):
        return "must not repeat an item"
    return next(filter(None, (_wrong_text(item, field) for item in value)), "")


def _wrong_text(value: str, field: Field) -> str:
    if field.choices and value not in field.choices:
        return "must be one of " + ", ".join(field.choices)
    if field.pattern and not re.fullmatch(field.pattern, value):
        return f"must match {field.pattern}"
    return ""


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise NotJson("the body is not base64") from error


def _depth(raw: bytes) -> int:
    """How deep brackets nest at most (brackets inside of strings count too: a bound, not a parse)."""
    depth = deepest = 0
    for byte in raw:
        if byte in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif byte in b"]}":
            depth -= 1
    return deepest


def _unique(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, value in pairs:
        if name in out:
            raise ValueError("duplicate key")
        out[name] = value
    return out


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
