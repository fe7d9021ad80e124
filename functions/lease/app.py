"""lease: the routes of leases and sessions. It uses only Redis and logs nothing on success."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from proxypool.config.settings import Settings, settings
from proxypool.http import web
from proxypool.http.router import Router, answer
from proxypool.leases import operations
from proxypool.leases.build import build_cache, build_pool, build_sessions
from proxypool.leases.pool import Pool
from proxypool.leases.sessions.store import Sessions


@cache
def pool() -> Pool:
    """Built once per Lambda environment."""
    return build_pool(settings(), build_cache(settings()))


@cache
def sessions() -> Sessions:
    """Built once per Lambda environment."""
    return build_sessions(settings())


@cache
def router(config: Settings) -> Router:
    """Built once per Lambda environment."""
    return operations.router(config, lambda: pool(), lambda: sessions())


def handler(event: dict[str, Any], context: Any) -> web.Response:
    """Handles an HTTP API event."""
    return answer(event, lambda: router(settings()), on_error=_log)


def _log(error: Exception, event: web.Event) -> None:
    """Logs one line without data of the caller. No logging library, because of the cold start."""
    request_id = (event.get("requestContext") or {}).get("requestId")
    line = {"level": "ERROR", "message": "lease failed", "error": type(error).__name__, "request_id": request_id}
    print(json.dumps(line))
