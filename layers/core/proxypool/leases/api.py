"""The routes of the lease function: a dictionary, declarative fields, one call each. Standard library and redis-py only."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from proxypool import web
from proxypool.errors import ApiError, Invalid, NotFound
from proxypool.leases.pool import Lease, Outcome, Pool, Request
from proxypool.proxies.proxy import Anonymity, Kind, Protocol
from proxypool.settings import Settings

KEY_HEADER: Final = "idempotency-key"
_KEY: Final = re.compile(r"[\x21-\x7e]{1,128}")
_LEASE_ID: Final = re.compile(r"[0-9a-f]{32}\.[0-9]{1,2}")
_PROXY_ID: Final = "[0-9a-f]{20}"
MAX_EXCLUDED: Final = 1_000


def lease_fields(settings: Settings) -> dict[str, web.Field]:
    """What POST /leases takes."""
    return {
        "protocol": web.Field(
            kind=str, choices=tuple(Protocol), description="How you speak to the proxy; any if absent"
        ),
        "https": web.Field(kind=bool, default=False, description="Only proxies that carry HTTPS"),
        "country": web.Field(kind=str, pattern="[a-z]{2}", description="Of the exit: ISO 3166 alpha-2, lower case"),
        "anonymity": web.Field(kind=str, choices=tuple(Anonymity), description="The least that will do"),
        "kind": web.Field(kind=str, choices=tuple(Kind), description="Of the exit's network, as its source says"),
        "min_score": web.Field(kind=float, default=0.0, minimum=0, maximum=1),
        "max_latency_ms": web.Field(kind=int, minimum=1, maximum=99_998),
        "distinct_exit": web.Field(kind=bool, default=False, description="No two of these leases share an exit IP"),
        "exclude": web.Field(kind=list, default=(), pattern=_PROXY_ID, max_items=MAX_EXCLUDED),
        "count": web.Field(kind=int, default=1, minimum=1, maximum=settings.max_lease_count),
        "at_least": web.Field(kind=int, default=1, minimum=1, maximum=settings.max_lease_count),
        "ttl_seconds": _ttl(settings),
    }


def renew_fields(settings: Settings) -> dict[str, web.Field]:
    """What POST /leases/{id}/renew takes."""
    return {"ttl_seconds": _ttl(settings)}


RELEASE_FIELDS: Final = {"outcome": web.Field(kind=str, choices=tuple(Outcome), description="What you found")}
REPORT_FIELDS: Final = {"outcome": web.Field(kind=str, choices=tuple(Outcome), required=True)}


def answer(event: web.Event, pool: Pool, settings: Settings) -> web.Response:
    """The response to an HTTP event; every ApiError leaves as problem details."""
    try:
        route = ROUTES.get(str(event.get("routeKey")))
        if route is None:
            raise web.unknown(event, ROUTES)
        return route(event, web.owner(event, local=settings.allow_loopback), pool, settings)
    except ApiError as error:
        return web.problem(error)


def _acquire(event: web.Event, owner: str, pool: Pool, settings: Settings) -> web.Response:
    values = web.read_fields(web.body_object(event, optional=True), lease_fields(settings))
    if values["at_least"] > values["count"]:
        raise Invalid([{"field": "at_least", "message": "must not be above count"}])
    key = web.header(event, KEY_HEADER) or ""
    if key and not _KEY.fullmatch(key):
        raise Invalid([{"field": "Idempotency-Key", "message": "must be 1 to 128 printable ASCII characters"}])
    leases, repeated = pool.acquire(owner, _request(values), key=key)
    body = {"leases": [lease.json() for lease in leases]} if values["count"] > 1 else leases[0].json()
    return web.respond(200 if repeated else 201, body)


def _look_all(event: web.Event, owner: str, pool: Pool, settings: Settings) -> web.Response:
    return web.respond(200, {"leases": [lease.json() for lease in pool.look(owner)]})


def _look(event: web.Event, owner: str, pool: Pool, settings: Settings) -> web.Response:
    found: list[Lease] = pool.look(owner, _lease_id(event))
    if not found:
        raise NotFound()
    return web.respond(200, found[0].json())


def _renew(event: web.Event, owner: str, pool: Pool, settings: Settings) -> web.Response:
    lease_id = _lease_id(event)
    values = web.read_fields(web.body_object(event, optional=True), renew_fields(settings))
    return web.respond(200, pool.renew(owner, lease_id, values["ttl_seconds"]).json())


def _release(event: web.Event, owner: str, pool: Pool, settings: Settings) -> web.Response:
    lease_id = _lease_id(event)
    outcome = web.read_fields(web.body_object(event, optional=True), RELEASE_FIELDS)["outcome"]
    pool.release(owner, lease_id, Outcome(outcome) if outcome else None)
    return web.respond(204)


def _report(event: web.Event, owner: str, pool: Pool, settings: Settings) -> web.Response:
    lease_id = _lease_id(event)
    pool.report(owner, lease_id, Outcome(web.read_fields(web.body_object(event), REPORT_FIELDS)["outcome"]))
    return web.respond(204)


Route = Callable[[web.Event, str, Pool, Settings], web.Response]
ROUTES: Final[dict[str, Route]] = {
    "POST /leases": _acquire,
    "GET /leases": _look_all,
    "GET /leases/{id}": _look,
    "DELETE /leases/{id}": _release,
    "POST /leases/{id}/release": _release,
    "POST /leases/{id}/renew": _renew,
    "POST /leases/{id}/report": _report,
}
"""The HTTP API's route keys."""


def _ttl(settings: Settings) -> web.Field:
    return web.Field(kind=int, default=settings.lease_seconds, minimum=1, maximum=settings.max_lease_seconds)


def _lease_id(event: web.Event) -> str:
    """The id in the path; one that no lease can have is unknown like any other."""
    lease_id = str((event.get("pathParameters") or {}).get("id", ""))
    if not _LEASE_ID.fullmatch(lease_id):
        raise NotFound()
    return lease_id


def _request(values: dict[str, Any]) -> Request:
    return Request(
        ttl_seconds=values["ttl_seconds"],
        count=values["count"],
        at_least=values["at_least"],
        protocol=Protocol(values["protocol"]) if values["protocol"] else None,
        https=values["https"],
        country=values["country"],
        anonymity=Anonymity(values["anonymity"] or Anonymity.TRANSPARENT),
        min_score=values["min_score"],
        max_latency_ms=values["max_latency_ms"] or 0,
        kind=Kind(values["kind"]) if values["kind"] else None,
        distinct_exit=values["distinct_exit"],
        exclude=tuple(sorted(values["exclude"])),
    )
