"""The admin API: the router of `manage` and its services."""

from __future__ import annotations

from functools import cache
from typing import Any

from proxypool.config.settings import Settings, settings
from proxypool.http import caller, web
from proxypool.http.router import Mount, Router
from proxypool.http.router import answer as route
from proxypool.jobs import operations as job_operations
from proxypool.jobs.build import build_service
from proxypool.jobs.service import Jobs
from proxypool.manage import build, operations, source_operations
from proxypool.manage.service import Manager
from proxypool.telemetry import flush, log


@cache
def manager() -> Manager:
    """Built once per Lambda environment."""
    return build.build_manager(settings())


@cache
def jobs() -> Jobs:
    """Built once per Lambda environment."""
    return build_service(settings())


@cache
def router(config: Settings) -> Router:
    """Built once per Lambda environment."""
    return Router(
        Mount((*source_operations.OPERATIONS, *operations.OPERATIONS), lambda: manager()),
        Mount(job_operations.operations(config), lambda: jobs()),
        identify=lambda event: caller.identify(event, local=config.allow_loopback),
        admin_scope=config.admin_scope,
    )


def answer(event: dict[str, Any]) -> web.Response:
    """The response to one HTTP API event."""
    try:
        return route(event, lambda: router(settings()), on_error=_log)
    finally:
        flush()


def _log(error: Exception, event: web.Event) -> None:
    log.exception("request failed", error=type(error).__name__)
