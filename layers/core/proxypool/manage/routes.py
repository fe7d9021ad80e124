"""The admin API's routes (Powertools' resolver) and what every answer has in common."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any, Final

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response
from aws_lambda_powertools.event_handler.exceptions import NotFoundError

from proxypool import caller, web
from proxypool.errors import ApiError, NotFound, Unavailable
from proxypool.jobs.api import JOB_ID, MAX_BODY_BYTES
from proxypool.jobs.build import service
from proxypool.jobs.domains import DOMAIN_NAME
from proxypool.jobs.service import QUERY_FIELDS as JOBS_QUERY_FIELDS
from proxypool.jobs.service import Jobs
from proxypool.manage import openapi
from proxypool.manage.listing import PROXY_ID, QUERY_FIELDS
from proxypool.manage.service import Manager
from proxypool.proxies.table import ProxyTable
from proxypool.settings import settings
from proxypool.sources.table import SourceTable
from proxypool.state import State
from proxypool.telemetry import flush, log

RETRY_AFTER_SECONDS: Final = 5
ADMIN_PATHS: Final = ("/sources", "/settings", "/tasks", "/domains", "/pool")
IDS: Final = {"sources": r"[a-z0-9-]{1,32}", "proxies": PROXY_ID, "tasks": r"[A-Za-z0-9-]{1,128}",
              "jobs": JOB_ID, "batches": JOB_ID, "domains": DOMAIN_NAME}  # fmt: skip
"""What an id in a path can be; another one is unknown, and reaches no table."""
ANY_ID: Final = "[!-~]{1,256}"

resolver = APIGatewayHttpResolver()


@cache
def manager() -> Manager:
    """The one manager of this process."""
    found = settings()
    return Manager(
        settings=found, sources=SourceTable(found.need("sources_table")), proxies=ProxyTable(found.need("proxies_table")),
        state=State(found.need("state_table")),
    )  # fmt: skip


def answer(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """The response to one API event; every error is problem details, none shows a stack trace."""
    try:
        caller.owner(event, local=settings().allow_loopback)
        if is_admins(event):
            caller.require_scope(event, settings().admin_scope)
        return resolver.resolve(event, context)
    except ApiError as error:
        return web.problem(error)
    except Exception as error:
        log.exception("request failed", error=type(error).__name__)
        return web.problem(Unavailable("something went wrong here", retry_after_seconds=RETRY_AFTER_SECONDS))
    finally:
        flush()


@cache
def jobs() -> Jobs:
    """The jobs' side of this process."""
    return service(settings())


def is_admins(event: web.Event) -> bool:
    """Whether the route is for those who run the pool: all but jobs, and looking at proxies, statistics and the document."""
    path, method = str(event.get("rawPath", "")), event["requestContext"]["http"]["method"]
    return path.startswith(ADMIN_PATHS) or (path.startswith("/proxies") and method != "GET")


def _owner() -> str:
    return caller.owner(_event(), local=settings().allow_loopback)


def _event() -> dict[str, Any]:
    raw: dict[str, Any] = resolver.current_event.raw_event
    return raw


def _body() -> dict[str, Any]:
    return web.body_object(_event())


def _no_body() -> None:
    """Refuses a body that says anything."""
    web.read_fields(web.body_object(_event(), optional=True), {})


def _respond(status: int, body: object = None) -> Response[Any]:
    made = web.respond(status, body)
    return Response(status_code=status, content_type=made["headers"]["content-type"], body=made.get("body", ""))


@resolver.exception_handler(ApiError)  # type: ignore[untyped-decorator]
def _problem(error: ApiError) -> Response[Any]:
    made = web.problem(error)
    return Response(status_code=error.status, headers=made["headers"], body=made["body"])


@resolver.not_found
def _unknown(_: NotFoundError) -> Response[Any]:
    found: Response[Any] = _problem(web.unknown(_event(), openapi.routes(openapi.checked_in())))
    return found


def _rebuild() -> dict[str, Any]:
    _no_body()
    return manager().rebuild()


def _scrape(name: str) -> dict[str, Any]:
    _no_body()
    return manager().scrape(name)


def _upload(name: str) -> dict[str, Any]:
    _no_body()
    return manager().upload(name)


def _restore(name: str) -> dict[str, Any]:
    _no_body()
    return manager().restore_proxy(name)


ROUTES: Final[dict[str, tuple[int, Callable[..., Any]]]] = {
    "GET /sources": (200, lambda: manager().list_sources()),
    "POST /sources": (201, lambda: manager().add_source(_body())),
    "GET /sources/{id}": (200, lambda name: manager().source(name)),
    "PATCH /sources/{id}": (200, lambda name: manager().change_source(name, _body())),
    "DELETE /sources/{id}": (204, lambda name: manager().remove_source(name)),
    "POST /sources/{id}/scrape": (202, _scrape),
    "POST /sources/{id}/upload": (201, _upload),
    "GET /proxies": (200, lambda: manager().list_proxies(web.read_query(_event(), QUERY_FIELDS))),
    "POST /proxies": (202, lambda: manager().add_proxies(_body())),
    "GET /proxies/{id}": (200, lambda name: manager().proxy(name)),
    "PATCH /proxies/{id}": (200, lambda name: manager().change_proxy(name, _body())),
    "DELETE /proxies/{id}": (204, lambda name: manager().remove_proxy(name)),
    "POST /proxies/{id}/restore": (200, _restore),
    "GET /settings": (200, lambda: manager().operator_settings()),
    "PATCH /settings": (200, lambda: manager().change_settings(_body())),
    "POST /pool/rebuild": (202, _rebuild),
    "GET /tasks/{id}": (200, lambda name: manager().task(name)),
    "GET /stats/pool": (200, lambda: manager().pool_stats()),
    "POST /jobs": (202, lambda: jobs().submit(_owner(), web.body_object(_event(), most=MAX_BODY_BYTES))),
    "GET /jobs": (200, lambda: jobs().page(_owner(), web.read_query(_event(), JOBS_QUERY_FIELDS))),
    "GET /jobs/{id}": (200, lambda name: jobs().show(_owner(), name)),
    "DELETE /jobs/{id}": (204, lambda name: jobs().delete(_owner(), name)),
    "GET /jobs/{id}/result": (200, lambda name: jobs().result(_owner(), name)),
    "POST /jobs/{id}/replay": (202, lambda name: jobs().replay(_owner(), name)),
    "GET /batches/{id}": (200, lambda name: jobs().batch(_owner(), name)),
    "GET /domains": (200, lambda: jobs().list_domains()),
    "PUT /domains/{id}": (200, lambda name: jobs().allow_domain(name, _body())),
    "DELETE /domains/{id}": (204, lambda name: jobs().forbid_domain(name)),
    "GET /openapi.json": (200, lambda: openapi.checked_in()),
}
"""The HTTP API's route keys: the status of success, and what brings the body (none for 204)."""


def _register(route: str, status: int, call: Callable[..., Any]) -> None:
    """Has the resolver answer a route. An id that cannot be is unknown."""
    method, _, path = route.partition(" ")
    pattern = IDS.get(path.split("/")[1], ANY_ID)

    def respond(**parts: str) -> Response[Any]:
        if not all(re.fullmatch(pattern, name) for name in parts.values()):
            raise NotFound
        return _respond(status, call(**parts))

    resolver.route(re.sub(r"\{\w+\}", "<name>", path), method=method)(respond)


for _key, (_status, _call) in ROUTES.items():
    _register(_key, _status, _call)
