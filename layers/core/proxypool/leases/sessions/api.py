"""The calls of the session routes: GET, PUT and DELETE /sessions/{id}. Standard library only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from proxypool.errors import Invalid
from proxypool.http.fields import to_json
from proxypool.http.operation import ApiRequest, Reply
from proxypool.leases.sessions.store import (
    CONTENT_FIELDS,
    COOKIE_FIELDS,
    COOKIE_REQUIRED,
    MAX_COOKIES,
    MAX_PAIRS,
    Sessions,
)

MAX_SESSION_BYTES: Final = 320 * 1024  # 256 KB of cookies, and the overhead of JSON
MAX_VALUE_CHARS: Final = 4_096
_TYPES: Final = {"string": str, "integer": int, "boolean": bool, "null": type(None)}
_TEXT_MESSAGE: Final = f"must be a string of at most {MAX_VALUE_CHARS} printable characters without ';'"
_VERSION: Final = {"type": "integer", "minimum": 0, "description": "The version that you read; 0 for a new session"}
SESSION_SCHEMA: Final = {
    "type": "object",
    "additionalProperties": False,
    "properties": {"version": _VERSION, **CONTENT_FIELDS},
}
"""The body of PUT /sessions/{id}."""


def get(request: ApiRequest[Sessions]) -> dict[str, Any]:
    """GET /sessions/{id}; raises NotFound."""
    return to_json(request.service.get(request.caller.owner, request.id))


def put(request: ApiRequest[Sessions]) -> Reply:
    """PUT /sessions/{id}: 201 for a new one, 200 for a newer version; raises Invalid, or VersionConflict for another version."""
    body = request.body
    errors = list(_wrong(body))
    if errors:
        raise Invalid(errors)
    version = body.get("version", 0)
    content: dict[str, Any] = {"cookies": [], "tokens": {}, "headers": {}, **body}
    content.pop("version", None)
    saved = request.service.put(request.caller.owner, request.id, content=content, version=version)
    return Reply(200 if version else 201, {"id": saved.id, "version": saved.version, "ttl_seconds": saved.ttl_seconds})


def delete(request: ApiRequest[Sessions]) -> None:
    """DELETE /sessions/{id}; raises NotFound."""
    request.service.delete(request.caller.owner, request.id)


def _wrong(body: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """An error for each invalid field, by its path."""
    for name in body:
        if name not in ("version", *CONTENT_FIELDS):
            yield {"field": name, "message": "unknown"}
    version = body.get("version", 0)
    if type(version) is not int or version < 0:
        yield {"field": "version", "message": "must be an integer from 0"}
    for name in ("tokens", "headers"):
        yield from _wrong_pairs(name, body.get(name, {}))
    cookies = body.get("cookies", [])
    if not isinstance(cookies, list) or len(cookies) > MAX_COOKIES:
        yield {"field": "cookies", "message": f"must be a list of at most {MAX_COOKIES}"}
        return
    for index, cookie in enumerate(cookies):
        yield from _wrong_cookie(f"cookies[{index}]", cookie)


def _wrong_pairs(name: str, value: Any) -> Iterator[dict[str, str]]:
    if not isinstance(value, dict) or len(value) > MAX_PAIRS:
        yield {"field": name, "message": f"must be an object of at most {MAX_PAIRS} members"}
        return
    for key, text in value.items():
        if not isinstance(text, str) or len(text) > MAX_VALUE_CHARS or not (text + key).isprintable():
            yield {
                "field": f"{name}.{key[:64]}",
                "message": f"must be a string of at most {MAX_VALUE_CHARS} printable characters",
            }


def _wrong_cookie(path: str, cookie: Any) -> Iterator[dict[str, str]]:
    if not isinstance(cookie, dict):
        yield {"field": path, "message": "must be an object"}
        return
    for name in COOKIE_REQUIRED:
        if name not in cookie:
            yield {"field": f"{path}.{name}", "message": "required"}
    for name, value in cookie.items():
        if name not in COOKIE_FIELDS:
            yield {"field": f"{path}.{name[:64]}", "message": "unknown"}
            continue
        types = COOKIE_FIELDS[name]["type"]
        types = [types] if isinstance(types, str) else types
        if type(value) not in [_TYPES[one] for one in types]:
            yield {"field": f"{path}.{name}", "message": f"must be {' or '.join(types)}"}
        elif isinstance(value, str) and not _is_fine(value):
            yield {"field": f"{path}.{name}", "message": _TEXT_MESSAGE}


def _is_fine(text: str) -> bool:
    return len(text) <= MAX_VALUE_CHARS and text.isprintable() and ";" not in text
