"""The admin API's routes (Powertools' resolver) and what every answer has in common."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response
from aws_lambda_powertools.event_handler.exceptions import NotFoundError

from proxypool import clock, web
from proxypool.errors import ApiError, NotFound, Unavailable
from proxypool.manage.service import Manager
from proxypool.proxies.table import ProxyTable
from proxypool.settings import settings
from proxypool.sources.table import SourceTable
from proxypool.state import State
from proxypool.telemetry import flush, log

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
        web.owner(event, local=settings().allow_loopback)
        return resolver.resolve(event, context)
    except ApiError as error:
        return web.problem(error)
    except Exception as error:
        log.exception("request failed", error=type(error).__name__)
        return web.problem(Unavailable("something went wrong here", retry_after_seconds=5))
    finally:
        flush()


def _body() -> dict[str, Any]:
    return web.body_object(resolver.current_event.raw_event)


def _respond(status: int, body: object = None) -> Response[Any]:
    made = web.respond(status, body)
    return Response(status_code=status, content_type=made["headers"]["content-type"], body=made.get("body", ""))


@resolver.exception_handler(ApiError)  # type: ignore[untyped-decorator]
def _problem(error: ApiError) -> Response[Any]:
    made = web.problem(error)
    return Response(status_code=error.status, headers=made["headers"], body=made["body"])


@resolver.not_found
def _unknown(_: NotFoundError) -> Response[Any]:
    made = web.problem(NotFound())
    return Response(status_code=404, headers=made["headers"], body=made["body"])


def _route(method: str, path: str, status: int = 200) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers what answers a route: its value is the body, a status of 204 has none."""

    def register(call: Callable[..., Any]) -> Callable[..., Any]:
        def respond(**parts: str) -> Response[Any]:
            return _respond(status, call(**parts))

        return resolver.route(path, method=method)(respond)

    return register


_route("GET", "/sources")(lambda: manager().list_sources())
_route("POST", "/sources", 201)(lambda: manager().add_source(_body()))
_route("GET", "/sources/<source_id>")(lambda source_id: manager().source(source_id))
_route("PATCH", "/sources/<source_id>")(lambda source_id: manager().change_source(source_id, _body()))
_route("DELETE", "/sources/<source_id>", 204)(lambda source_id: manager().remove_source(source_id))
_route("POST", "/sources/<source_id>/scrape", 202)(lambda source_id: manager().scrape(source_id))
_route("POST", "/sources/<source_id>/upload", 201)(lambda source_id: manager().upload(source_id))
_route("GET", "/proxies")(lambda: manager().list_proxies(web.query(resolver.current_event.raw_event)))
_route("POST", "/proxies", 202)(lambda: manager().add_proxies(_body()))
_route("GET", "/proxies/<proxy_id>")(lambda proxy_id: manager().proxy(proxy_id))
_route("PATCH", "/proxies/<proxy_id>")(lambda proxy_id: manager().change_proxy(proxy_id, _body()))
_route("DELETE", "/proxies/<proxy_id>", 204)(lambda proxy_id: manager().remove_proxy(proxy_id))
_route("GET", "/settings")(lambda: manager().operator_settings())
_route("PATCH", "/settings")(lambda: manager().change_settings(_body()))
_route("GET", "/tasks/<run_id>")(lambda run_id: manager().task(run_id))
_route("GET", "/stats/pool")(lambda: manager().pool_stats(clock.now()))
