"""Access control in front of the emulated AWS, as an ASGI middleware.

The emulator runs code for any caller and does not check signatures. Loopback excludes other machines, but neither web pages
(a browser sends their requests to 127.0.0.1) nor other users of this machine. So the Host header of a request must name
this machine, the request must not come from a web page, and it must contain a secret of the stack:

- its access key, as the access key id of a signed or presigned AWS request, for all services; or
- a token derived from that key, as a prefix of the path (`/_local/<token>/_aws/execute-api/…`): for the HTTP
  APIs only, since addresses appear in `ps` and in shell histories.
"""

from __future__ import annotations

import hmac
import json
import re
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final
from urllib.parse import parse_qs

from proxypool.errors import ProxyPoolError
from proxypool.local.emulation.access import API_PATH, TOKEN_PREFIX, api_token

HEALTH_PATH: Final = "/_ministack/health"
MIN_KEY_LENGTH: Final = 16
_API_REQUEST: Final = re.compile(
    rf"{API_PATH}/[^/]+/"
)  # an API's id and a path: the emulator gives all else to its services
_CREDENTIAL: Final = re.compile(r"AWS4-HMAC-SHA256 +Credential=([^/,\s]+)/")

Scope = dict[str, Any]
Send = Callable[[dict[str, Any]], Awaitable[None]]
App = Callable[[Scope, Callable[[], Awaitable[dict[str, Any]]], Send], Awaitable[None]]


class Denied(ProxyPoolError):
    """The request is rejected, with an HTTP status and a reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


def require_access_key(app: App, *, access_key: str, port: int) -> App:
    """The ASGI app behind the guard; websockets are rejected. Raises ValueError for a short access key."""
    if len(access_key) < MIN_KEY_LENGTH:
        raise ValueError(f"the access key of a local stack must have at least {MIN_KEY_LENGTH} characters")
    token = api_token(access_key).encode()

    async def guard(scope: Scope, receive: Callable[[], Awaitable[dict[str, Any]]], send: Send) -> None:
        if scope["type"] == "lifespan":
            await app(scope, receive, send)
        elif scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
        else:
            try:
                allowed = admit(scope, access_key=access_key, token=token, port=port)
            except Denied as denied:
                await _reject(send, denied)
            else:
                await app(allowed, receive, send)

    return guard


def admit(scope: Scope, *, access_key: str, token: bytes, port: int) -> Scope:
    """The scope for the app, with the token removed from its path; raises Denied."""
    headers = _headers(scope["headers"])
    if headers.get("host", "").lower() not in {f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")}:
        raise Denied(421, "the Host header does not name this machine and port")  # DNS rebinding
    if "origin" in headers or headers.get("sec-fetch-site", "none") != "none":
        raise Denied(403, "requests from web pages are not allowed")
    if scope["raw_path"].startswith(TOKEN_PREFIX.encode()):
        return _without_token(scope, token)
    if scope["path"] == HEALTH_PATH and scope["method"] == "GET":
        return scope
    given = _access_key(headers, scope["query_string"])
    if not hmac.compare_digest(given.encode("utf-8", "replace"), access_key.encode()):
        raise Denied(403, "the access key id is not that of this stack (access_key in .local/stack.json)")
    return scope


def _without_token(scope: Scope, token: bytes) -> Scope:
    given = scope["raw_path"][len(TOKEN_PREFIX) :].partition(b"/")[0]
    if not hmac.compare_digest(given, token):
        raise Denied(403, "the token in the address is not that of this stack (api_url in .local/stack.json)")
    start = len(TOKEN_PREFIX) + len(token)
    path, raw_path = scope["path"][start:], scope["raw_path"][start:]
    if not _API_REQUEST.match(path):
        raise Denied(403, "the token in the address is valid for the HTTP APIs only")
    return {**scope, "path": path, "raw_path": raw_path}


def _headers(raw: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Values by lower-case names; the values of a repeated name are joined, so that each is checked."""
    out: dict[str, str] = {}
    for name, value in raw:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        out[key] = f"{out[key]}, {text}" if key in out else text
    return out


def _access_key(headers: dict[str, str], query: bytes) -> str:
    """The access key id of a signed (header) or presigned (query) request, else ""."""
    signed = _CREDENTIAL.match(headers.get("authorization", ""))
    if signed:
        return signed[1]
    presigned = parse_qs(query.decode("latin-1"))
    values = presigned.get("X-Amz-Credential") or presigned.get("AWSAccessKeyId") or [""]  # SigV4, S3's older form
    return values[0].partition("/")[0]


async def _reject(send: Send, denied: Denied) -> None:
    """Responds with problem details; botocore reads `__type` and `message` for its ClientError."""
    problem = {"type": "local_stack", "title": denied.reason, "status": denied.status}
    body = problem | {"__type": "AccessDenied", "message": denied.reason}
    headers = [(b"content-type", b"application/problem+json")]
    await send({"type": "http.response.start", "status": denied.status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(body).encode()})
