"""The fields and calls of the lease routes; `leases/operations.py` puts them into the table. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from proxypool_client.outcome import Outcome

from proxypool import clock
from proxypool.config.settings import Settings
from proxypool.errors import Invalid
from proxypool.http import web
from proxypool.http.fields import to_json
from proxypool.http.operation import ApiRequest, Reply
from proxypool.leases.filters import FILTERS, request_values
from proxypool.leases.pool import Pool, Request, Strategy
from proxypool.leases.sessions.store import SESSION_ID_PATTERN
from proxypool.proxies.proxy import ID_PATTERN

KEY_HEADER: Final = "Idempotency-Key"
LEASE_ID_PATTERN: Final = r"[0-9a-f]{32}\.[0-9]{1,2}"
_LABEL: Final = "[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
TARGET_PATTERN: Final = rf"(?=.{{1,253}}$){_LABEL}(?:\.{_LABEL})+"
MAX_EXCLUDED: Final = 1_000
MAX_RELEASED: Final = 100


def lease_fields(settings: Settings) -> dict[str, web.Field]:
    """The body of POST /leases."""
    return {
        **{row.name: row.field for row in FILTERS},
        "target": web.Field(
            kind=str,
            pattern=TARGET_PATTERN,
            description="The host you will ask, lower case: exits that cool for it are left out",
        ),
        "session_id": web.Field(
            kind=str, pattern=SESSION_ID_PATTERN, description="Stays with one proxy as long as that can be leased"
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
KEY_FIELD: Final = web.Field(
    kind=str,
    pattern=r"[\x21-\x7e]{1,128}",
    description="Repeat it and you get the same leases, however often the request is sent",
)
RELEASE_FIELDS: Final = {"outcome": _OUTCOME, "retry_after": _RETRY_AFTER}
REPORT_FIELDS: Final = {"outcome": replace(_OUTCOME, required=True), "retry_after": _RETRY_AFTER}
RELEASE_MANY_FIELDS: Final = {
    "leases": web.Field(kind=list, required=True, pattern=LEASE_ID_PATTERN, max_items=MAX_RELEASED),
    "outcome": _OUTCOME,
}


def acquire(request: ApiRequest[Pool]) -> Reply:
    """POST /leases: 201 with new leases, 200 with those that the same idempotency key got before."""
    values = request.body
    if values["at_least"] > values["count"]:
        raise Invalid([{"field": "at_least", "message": "must not be above count"}])
    if values["session_id"] and values["count"] > 1:
        raise Invalid([{"field": "count", "message": "must be 1 with session_id"}])
    key = request.headers[KEY_HEADER] or ""
    leases, repeated = request.service.acquire(request.caller.owner, _request(values), key=key)
    body = {"leases": [to_json(lease) for lease in leases]} if values["count"] > 1 else to_json(leases[0])
    return Reply(200 if repeated else 201, body)


def list_leases(request: ApiRequest[Pool]) -> dict[str, Any]:
    """GET /leases."""
    return {"leases": [to_json(lease) for lease in request.service.list_leases(request.caller.owner)]}


def read_lease(request: ApiRequest[Pool]) -> dict[str, Any]:
    """GET /leases/{id}; raises NotFound."""
    return to_json(request.service.get(request.caller.owner, request.id))


def renew(request: ApiRequest[Pool]) -> dict[str, Any]:
    """POST /leases/{id}/renew; raises NotFound."""
    return to_json(request.service.renew(request.caller.owner, request.id, request.body["ttl_seconds"]))


def drop(request: ApiRequest[Pool]) -> None:
    """DELETE /leases/{id}: a release without an outcome; raises NotFound."""
    request.service.release(request.caller.owner, request.id)


def release(request: ApiRequest[Pool]) -> None:
    """POST /leases/{id}/release; raises NotFound."""
    values = request.body
    outcome = Outcome(values["outcome"]) if values["outcome"] else None
    retry_after = _retry_after(values["retry_after"])
    request.service.release(request.caller.owner, request.id, outcome, retry_after=retry_after)


def release_many(request: ApiRequest[Pool]) -> dict[str, Any]:
    """POST /leases/release: how many were released, and the ids that are no live lease of the caller."""
    values = request.body
    outcome = Outcome(values["outcome"]) if values["outcome"] else None
    unknown = request.service.release_many(request.caller.owner, values["leases"], outcome)
    return {"released": len(values["leases"]) - len(unknown), "unknown": unknown}


def report(request: ApiRequest[Pool]) -> None:
    """POST /leases/{id}/report; raises NotFound."""
    values = request.body
    retry_after = _retry_after(values["retry_after"])
    request.service.report(request.caller.owner, request.id, Outcome(values["outcome"]), retry_after=retry_after)


def _retry_after(text: str | None) -> int | None:
    """The seconds of a Retry-After header, a number or an HTTP date; raises Invalid for anything else."""
    if text is None or text.isdigit():
        return None if text is None else int(text)
    from email.utils import parsedate_to_datetime  # rarely used: not part of the cold start

    try:
        return max(0, clock.epoch(parsedate_to_datetime(text)) - clock.epoch(clock.now()))
    except (ValueError, OverflowError) as error:
        raise Invalid([{"field": "retry_after", "message": "must be seconds or an HTTP date"}]) from error


def _ttl(settings: Settings) -> web.Field:
    return web.Field(kind=int, default=settings.lease_seconds, minimum=1, maximum=settings.max_lease_seconds)


def _request(values: Mapping[str, Any]) -> Request:
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
