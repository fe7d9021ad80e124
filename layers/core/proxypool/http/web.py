"""Events and responses of API Gateway (payload format 2.0): parsing and validation. Standard library only.

`lease` imports this during its cold start: no third-party imports.
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
MAX_NAME_CHARS: Final = 64  # of an unknown member, in the error message
MAX_DEPTH: Final = 16  # of JSON; checked before parsing

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
    """The error as a problem details response, with its headers."""
    return respond(error.status, error.problem(), error.headers)


def header(event: Event, name: str) -> str | None:
    """A request header; API Gateway passes names in lower case."""
    value = (event.get("headers") or {}).get(name)
    return value if isinstance(value, str) else None


def query(event: Event) -> dict[str, str]:
    """The query parameters, one value per name."""
    return dict(event.get("queryStringParameters") or {})


def method(event: Event) -> str:
    """The request method, in upper case."""
    return str(((event.get("requestContext") or {}).get("http") or {}).get("method", ""))


def path(event: Event) -> str:
    """The request path without the stage prefix that API Gateway adds for all stages but `$default`."""
    raw_path, stage = str(event.get("rawPath", "")), str((event.get("requestContext") or {}).get("stage") or "$default")
    prefix = f"/{stage}"
    return raw_path[len(prefix) :] if stage != "$default" and f"{raw_path}/".startswith(f"{prefix}/") else raw_path


def body_object(event: Event, *, optional: bool = False, max_bytes: int = MAX_BODY_BYTES) -> dict[str, Any]:
    """The request body as a JSON object; {} if it is empty and `optional`.

    Raises UnsupportedMediaType (content type missing or not JSON), NotJson (syntax, encoding, duplicate keys, NaN, nested too deep) or
    TooLarge (over `max_bytes`).
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
    if len(raw) > max_bytes:
        raise TooLarge(f"at most {max_bytes} bytes")
    return parse_object(raw)


def parse_object(raw: bytes) -> dict[str, Any]:
    """Parses strict JSON: an object in UTF-8, without duplicate keys, NaN, Infinity or lone surrogates. Raises NotJson."""
    if _depth(raw) > MAX_DEPTH:
        raise NotJson("the JSON is nested too deep")
    try:
        value = json.loads(raw.decode(), object_pairs_hook=_without_duplicates, parse_constant=_reject_constant)
        if b"\\u" in raw:
            json.dumps(value, ensure_ascii=False).encode()  # half a surrogate pair is no character: it has no UTF-8
    except (ValueError, RecursionError) as error:
        raise NotJson("the body is not JSON") from error
    if not isinstance(value, dict):
        raise NotJson("the body is not a JSON object")
    return value


@dataclass(
    frozen=True, slots=True, kw_only=True, eq=False, repr=False
)  # fewer generated methods: faster cold start of `lease`
class Field:
    """Type and constraints of one member of a request. `kind` is str, int, float, bool, list (of str, or of objects with `items`) or
    dict (whose members are validated separately).
    """

    kind: type = str
    default: Any = None
    required: bool = False
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    pattern: str = ""  # full match of the text, or of each item of a list
    max_items: int | None = None
    nullable: bool = False  # null is a value, distinct from absence
    items: Mapping[str, Field] | None = None  # the members of the objects in a list
    description: str = ""

    def schema(self) -> dict[str, Any]:
        """The JSON schema of this field."""
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
            text_schema = {"type": "string"} | text
            out |= {"items": schema_of(self.items) if self.items else text_schema, "uniqueItems": True}
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
    """Validates a request body and fills in defaults; raises Invalid with all fields that are invalid, unknown or missing."""
    errors: list[dict[str, str]] = [
        {"field": name[:MAX_NAME_CHARS], "message": "unknown"} for name in body if name not in fields
    ]
    values: dict[str, Any] = {}
    for name, field in fields.items():
        if name not in body or body[name] is None:
            if field.required:
                errors.append({"field": name, "message": "required"})
            values[name] = field.default
            continue
        message = _check(body[name], field)
        if message:
            errors.append({"field": name, "message": message})
        else:
            values[name] = tuple(body[name]) if field.kind is list else field.kind(body[name])
    if errors:
        raise Invalid(errors)
    return values


def read_query(event: Event, fields: Mapping[str, Field]) -> dict[str, Any]:
    """Validates query parameters like `read_fields`; integers and booleans are parsed from their text."""
    values: dict[str, Any] = {}
    for name, text in query(event).items():
        kind = fields[name].kind if name in fields else str
        if kind is int and re.fullmatch("0|[1-9][0-9]{0,8}", text):
            values[name] = int(text)
        elif kind is bool and text in ("true", "false"):
            values[name] = text == "true"
        else:
            values[name] = text
    return read_fields(values, fields)


def schema_of(fields: Mapping[str, Field]) -> dict[str, Any]:
    """The JSON schema of the bodies that `read_fields` accepts."""
    out: dict[str, Any] = {
        "type": "object",
        "additionalProperties": False,
        "properties": {name: field.schema() for name, field in fields.items()},
    }
    required = [name for name, field in fields.items() if field.required]
    return out | ({"required": required} if required else {})


_JSON_TYPES: Final = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array", dict: "object"}


def _check(value: Any, field: Field) -> str:
    if field.kind is list:
        return _check_list(value, field)
    accepted = (int, float) if field.kind is float else (field.kind,)
    if type(value) not in accepted:  # not isinstance: True is an int, too
        return f"must be {_JSON_TYPES[field.kind]}"
    if isinstance(value, str):
        return _check_text(value, field)
    if field.kind is dict:
        return ""
    minimum = -math.inf if field.minimum is None else field.minimum
    maximum = math.inf if field.maximum is None else field.maximum
    if not minimum <= value <= maximum:  # exact for integers of any size, unlike float()
        return f"must be from {field.minimum} to {field.maximum}"
    return ""


def _check_objects(value: list[Any], fields: Mapping[str, Field]) -> str:
    if not all(isinstance(item, dict) for item in value):
        return "must be a list of objects"
    for index, item in enumerate(value):
        try:
            read_fields(item, fields)
        except Invalid as error:
            first = error.problem()["errors"][0]
            return f"item {index}: {first['field']} {first['message']}"
    return ""


def _check_list(value: Any, field: Field) -> str:
    if not isinstance(value, list):
        return "must be a list"
    if field.max_items is not None and len(value) > field.max_items:
        return f"at most {field.max_items} items"
    if field.items:
        return _check_objects(value, field.items)
    if not all(isinstance(item, str) for item in value):
        return "must be a list of strings"
    if len(set(value)) != len(value):
        return "must not repeat an item"
    return next(filter(None, (_check_text(item, field) for item in value)), "")


def _check_text(value: str, field: Field) -> str:
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
    """An upper bound of the nesting depth: brackets inside strings are counted, too."""
    depth = deepest = 0
    for byte in raw:
        if byte in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif byte in b"]}":
            depth -= 1
    return deepest


def _without_duplicates(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, value in pairs:
        if name in out:
            raise ValueError("duplicate key")
        out[name] = value
    return out


def _reject_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
