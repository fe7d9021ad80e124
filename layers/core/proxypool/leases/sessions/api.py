"""The calls of the session routes: GET, PUT and DELETE /sessions/{id}. Standard library only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from proxypool.errors import Invalid
from proxypool.http.operation import ApiRequest, Reply
from proxypool.leases.sessions.store import Sessions

MAX_SESSION_BYTES: Final = 320 * 1024  # 256 KB of cookies, and the overhead of JSON
MAX_COOKIES: Final = 3_000
MAX_PAIRS: Final = 100
MAX_VALUE_CHARS: Final = 4_096
_COOKIE: Final[Mapping[str, tuple[type, ...]]] = {
    "name": (str,),
    "value": (str,),
    "domain": (str,),
    "path": (str,),
    "expires_at": (int, type(None)),
    "secure": (bool,),
    "http_only": (bool,),
    "host_only": (bool,),
}
_JSON_NAMES: Final = {str: "string", int: "integer or null", bool: "boolean"}
_TEXT_MESSAGE: Final = f"must be a string of at most {MAX_VALUE_CHARS} printable characters without ';'"
MEMBERS: Final[Mapping[str, Mapping[str, Any]]] = {
    "version": {"type": "integer", "minimum": 0, "description": "The version that you read; 0 for a new session"},
    "cookies": {
        "type": "array",
        "maxItems": MAX_COOKIES,
        "items": {
            "type": "object",
            "additionalProperties": False,
            "required": ["name", "value", "domain"],
            "properties": {
                "name": {"type": "string"},
                "value": {"type": "string"},
                "domain": {"type": "string"},
                "path": {"type": "string"},
                "expires_at": {"type": ["integer", "null"], "description": "Epoch seconds; null: with the session"},
                "secure": {"type": "boolean"},
                "http_only": {"type": "boolean"},
                "host_only": {"type": "boolean"},
            },
        },
    },
    "tokens": {"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": MAX_PAIRS},
    "headers": {"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": MAX_PAIRS},
}
SESSION_SCHEMA: Final = {"type": "object", "additionalProperties": False, "properties": MEMBERS}
"""The body of PUT /sessions/{id}."""


def get(request: ApiRequest[Sessions]) -> dict[str, Any]:
    """GET /sessions/{id}; raises NotFound."""
    return request.service.get(request.caller.owner, request.id).json()


def put(request: ApiRequest[Sessions]) -> Reply:
    """PUT /sessions/{id}: 201 for a new one, 200 for a newer version; raises Invalid, or VersionConflict for another version."""
    body = request.body
    errors = list(_wrong(body))
    if errors:
        raise Invalid(errors)
    version = body.get("version", 0)
    kept: dict[str, Any] = {
        name: body.get(name, empty) for name, empty in (("cookies", []), ("tokens", {}), ("headers", {}))
    }
    saved = request.service.put(request.caller.owner, request.id, body=kept, version=version)
    return Reply(200 if version else 201, {"id": saved.id, "version": saved.version, "ttl_seconds": saved.ttl_seconds})


def delete(request: ApiRequest[Sessions]) -> None:
    """DELETE /sessions/{id}; raises NotFound."""
    request.service.delete(request.caller.owner, request.id)


def _wrong(body: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """An error for each invalid field, by its path."""
    for name in body:
        if name not in MEMBERS:
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
    for name in ("name", "value", "domain"):
        if name not in cookie:
            yield {"field": f"{path}.{name}", "message": "required"}
    for name, value in cookie.items():
        kinds = _COOKIE.get(name)
        if kinds is None:
            yield {"field": f"{path}.{name[:64]}", "message": "unknown"}
        elif type(value) not in kinds:
            yield {"field": f"{path}.{name}", "message": f"must be {_JSON_NAMES[kinds[0]]}"}
        elif isinstance(value, str) and not _is_fine(value):
            yield {"field": f"{path}.{name}", "message": _TEXT_MESSAGE}


def _is_fine(text: str) -> bool:
    return len(text) <= MAX_VALUE_CHARS and text.isprintable() and ";" not in text
