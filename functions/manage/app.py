"""manage: the admin API for sources, proxies, settings, runs and statistics, and the routes of jobs."""

from __future__ import annotations

from typing import Any

from proxypool.manage.routes import answer


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Handles an HTTP API event."""
    return answer(event)
