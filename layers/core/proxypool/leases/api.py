"""The routes of the lease function: a dictionary, declarative fields, one call each. Standard library only, for a short cold start."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from proxypool_client.outcome import Outcome

from proxypool import caller, clock, web
from proxypool.errors import ApiError, Forbidden, Invalid, NotFound
from proxypool.leases.filters import FILTERS, request_values
from proxypool.leases.pool import Pool, Request, Strategy
from proxypool.leases.sessions import SESSION_ID
from proxypool.proxies.proxy import ID_PATTERN
from proxypool.settings import Settings

KEY_HEADER: Final = "idempotency-key"
_KEY: Final = re.compile(r"[\x21-\x7e]{1,128}")
_LEASE_ID: Final = re.compile(r"[0-9a-f]{32}\.[0-9]{1,2}")
_LABEL: Final = "[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
TARGET: Final = rf"(?=.{{1,253}}$){_LABEL}(?:\.{_LABEL})+"
MAX_EXCLUDED: Final = 1_000
MAX_RELEASED: Final = 100


def lease_fields(settings: Settings) -> dict[str, web.Field]:
    """The body of POST /leases."""
    return {
        **{row.name: row.field for row in FILTERS},
        "target": web.Field(
            kind=str,
            pattern=TARGET,
            description="The host you will ask, lower case: exits that cool for it are left out",
        ),
        "session_id": web.Field(
            kind=str, pattern=SESSION_ID, description="Stays with one proxy as long as that can be leased"
        ),
        "strategy": web.Field(kind=str, default=Strategy.WEIGHTED.value, choices=tuple(Strategy)),
        "distinct_exit": web.Field(kind=bool, default=False, description="No two of these leases share an exit IP"),
        "exclude": web.Field(kind=list, default=(), pattern=ID_PATTERN, max_items=MAX_EXCLUDED),
        "count": web.Field(kind=int, default=1, minimum=1, maximum=settings.max_lease_count),
        "at_least": web.Field(kind=int, default=1, minimum=1, maximum=settings.max_lease_count),
        "ttl_seconds": _ttl(settings),
    }


def renew_fields(settings: Settings) -> dict[str, web.Field]:
    """The body of POST /leases/{id}/renew."""
    return {"ttl_seconds": _ttl(settings)}


_OUTCOME: Final = web.Field(kind=str, choices=tuple(Outcome), description="What you found")
_RETRY_AFTER: Final = web.Field(
    kind=str,
    pattern=r"[0-9]{1,9}|[A-Z][a-z]{2}, [0-9A-Za-z :]{10,30}",
    description="The target's Retry-After, as it sent it",
)
RELEASE_FIELDS: Final = {"outcome": _OUTCOME, "retry_after": _RETRY_AFTER}
REPORT_FIELDS: Final = {"outcome": replace(_OUTCOME, required=True), "retry_after": _RETRY_AFTER}
RELEASE_MANY_FIELDS: Final = {
    "leases": web.Field(kind=list, required=True, pattern=_LEASE_ID.pattern, max_items=MAX_RELEASED),
    "outcome": _OUTCOME,
}


def answer(event: web.Event, pool: Pool, settings: Settings) -> web.Response:
    """The response to an HTTP event; an ApiError becomes problem details."""
    try:
        route = ROUTES.get(str(event.get("routeKey")))
        if route is None:
            raise web.unknown(event, ROUTES)
        return route(event, acting_owner(event, settings), pool, settings)
    except ApiError as error:
        return web.problem(error)


def acting_owner(event: web.Event, settings: Settings) -> str:
    """The caller, or the owner in X-On-Behalf-Of, which only the worker's role may send. Raises Forbidden."""
    owner, other = caller.owner(event, local=settings.allow_loopback), web.header(event, caller.ON_BEHALF_HEADER)
    if other is None:
        return owner
    if not settings.worker_role_id or owner != settings.worker_role_id or not caller.OWNER.fullmatch(other):
        raise Forbidden()
    return other


def _acquire(event: web.Event, owner: str, pool: Pool, settings: Settings) -> web.Response:
    values = web.read_fields(web.body_object(event, optional=True), lease_fields(settings))
    if values["at_least"] > values["count"]:
        raise Invalid([{"field": "at_least", "message": "must not be above count"}])
    if values["session_id"] and values["count"] > 1:
        raise Invalid([{"field": "count", "message": "must be 1 with session_id"}])
    key = web.header(event, KEY_HEADER) or ""
    if key and not _KEY.fullmatch(key):
        raise Invalid([{"field": "Idempotency-Key", "message": "must be 1 to 128 printable ASCII characters"}])
    leases, repeated = pool.acquire(owner, _request(values), key=key)
    body = {"leases": [lease.json() for lease in leases]} if values["count"] > 1 else leases[0].json()
    return web.respond(200 if repeated else 201, body)


def _look_all(event: web.Event, owner: str, pool: Pool, settings: Settings) -> web.Response:
    return web.respond(200, {"leases": [lease.json() for lease in pool.list_leases(owner)]})


def _look(event: web.Event, owner: str, pool: Pool, settings: Settings) -> web.Response:
    return web.respond(200, pool.get(owner, _lease_id(event)).json())


def _renew(event: web.Event, owner: str, pool: Pool, settings: Settings) -> web.Response:
    lease_id = _lease_id(event)
    values = web.read_fields(web.body_object(event, optional=True), renew_fields(settings))
    return web.respond(200, pool.renew(owner, lease_id, values["ttl_seconds"]).json())


def _release(event: web.Event, owner: str, pool: Pool, settings: Settings) -> web.Response:
    lease_id = _lease_id(event)
    values = web.read_fields(web.body_object(event, optional=True), RELEASE_FIELDS)
    outcome = Outcome(values["outcome"]) if values["outcome"] else None
    pool.release(owner, lease_id, outcome, retry_after=_retry_after(values["retry_after"]))
    return web.respond(204)


def _release_many(event: web.Event, owner: str, pool: Pool, settings: Settings) -> web.Response:
    values = web.read_fields(web.body_object(event), RELEASE_MANY_FIELDS)
    outcome = Outcome(values["outcome"]) if values["outcome"] else None
    unknown = pool.release_many(owner, values["leases"], outcome)
    return web.respond(200, {"released": len(values["leases"]) - len(unknown), "unknown": unknown})


def _report(event: web.Event, owner: str, pool: Pool, settings: Settings) -> web.Response:
    lease_id = _lease_id(event)
    values = web.read_fields(web.body_object(event), REPORT_FIELDS)
    pool.report(owner, lease_id, Outcome(values["outcome"]), retry_after=_retry_after(values["retry_after"]))
    return web.respond(204)


def _retry_after(text: str | None) -> int | None:
    """The seconds of a Retry-After header, a number or an HTTP date; raises Invalid for anything else."""
    if text is None or text.isdigit():
        return None if text is None else int(text)
    from email.utils import parsedate_to_datetime  # rarely used: not part of the cold start

    try:
        return max(0, clock.epoch(parsedate_to_datetime(text)) - clock.epoch(clock.now()))
    except (ValueError, OverflowError) as error:
        raise Invalid([{"field": "retry_after", "message": "must be seconds or an HTTP date"}]) from error


Route = Callable[[web.Event, str, Pool, Settings], web.Response]
ROUTES: Final[dict[str, Route]] = {
    "POST /leases": _acquire,
    "GET /leases": _look_all,
    "GET /leases/{id}": _look,
    "DELETE /leases/{id}": _release,
    "POST /leases/{id}/release": _release,
    "POST /leases/release": _release_many,
    "POST /leases/{id}/renew": _renew,
    "POST /leases/{id}/report": _report,
}
"""The HTTP API's route keys."""


def _ttl(settings: Settings) -> web.Field:
    return web.Field(kind=int, default=settings.lease_seconds, minimum=1, maximum=settings.max_lease_seconds)


def _lease_id(event: web.Event) -> str:
    """The id in the path; raises NotFound for text that is not a lease id."""
    lease_id = str((event.get("pathParameters") or {}).get("id", ""))
    if not _LEASE_ID.fullmatch(lease_id):
        raise NotFound()
    return lease_id


def _request(values: dict[str, Any]) -> Request:
    return Request(
        ttl_seconds=values["ttl_seconds"],
        count=values["count"],
        at_least=values["at_least"],
        target=values["target"] or "",
        session_id=values["session_id"] or "",
        strategy=Strategy(values["strategy"]),
        distinct_exit=values["distinct_exit"],
        exclude=tuple(sorted(values["exclude"])),
        **request_values(values),
    )
