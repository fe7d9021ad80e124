"""lease: POST /leases and what is done with one, and sessions. Redis and nothing but Redis; on the good path it prints nothing."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from proxypool import web
from proxypool.errors import Unavailable
from proxypool.leases import api, session_api
from proxypool.leases.build import cache_of, pool_of, sessions_of
from proxypool.leases.pool import Pool
from proxypool.leases.sessions import Sessions
from proxypool.settings import settings

RETRY_AFTER_SECONDS = 5


@cache
def pool() -> Pool:
    """The lease engine of this process."""
    return pool_of(settings(), cache_of(settings()))


@cache
def sessions() -> Sessions:
    """The sessions of this process."""
    return sessions_of(settings())


def handler(event: dict[str, Any], context: Any) -> web.Response:
    """Answers one HTTP request; an unexpected error is one line in the log and a 503, never a stack trace."""
    try:
        if str(event.get("rawPath", "")).startswith("/sessions/"):
            return session_api.answer(event, sessions(), settings())
        return api.answer(event, pool(), settings())
    except Exception as error:
        line = {
            "level": "ERROR",
            "message": "lease failed",
            "error": type(error).__name__,
            "route": event.get("routeKey"),
        }
        print(json.dumps(line))
        return web.problem(Unavailable(retry_after_seconds=RETRY_AFTER_SECONDS))
