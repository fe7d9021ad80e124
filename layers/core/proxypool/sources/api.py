"""Sources as the API speaks of them: what a request may say, and what an answer shows."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from proxypool import clock
from proxypool.errors import AddressRefused, Invalid
from proxypool.network.address import MAX_URL_CHARS, Refusal, is_address, parse_url, refusal
from proxypool.proxies.proxy import Kind, Protocol
from proxypool.settings import Settings
from proxypool.sources.cron import parse_schedule
from proxypool.sources.formats import AUTO, formats, is_known
from proxypool.sources.record import Source
from proxypool.telemetry import Metric, count
from proxypool.web import Field, read_fields

_TAG: Final = r"[a-z0-9-]{1,32}"
MAX_TAGS: Final = 10
PLACES: Final = ("url", "inline", "path")

SOURCE_FIELDS: Final[dict[str, Field]] = {
    "id": Field(kind=str, pattern=_TAG, description="chosen by the caller, else random; cannot be changed"),
    "name": Field(kind=str, default="", pattern=r"[ -~]{0,80}"),
    "url": Field(
        kind=str, default="", pattern=rf"[!-~]{{0,{MAX_URL_CHARS}}}", description="https, without credentials"
    ),
    "inline": Field(kind=str, default="", description="the list itself"),
    "path": Field(kind=str, default="", description="a file; on a local stack only"),
    "allow_http": Field(kind=bool, default=False, description="the URL may be plain http"),
    "parser": Field(kind=str, default=AUTO, pattern=r"[a-z0-9_-]{1,32}(:[A-Za-z0-9_.-]{1,128})?"),
    "protocol": Field(
        kind=str, default=Protocol.HTTP.value, choices=tuple(Protocol), description="of rows without one"
    ),
    "kind": Field(kind=str, default=Kind.UNKNOWN.value, choices=tuple(Kind)),
    "tags": Field(kind=list, default=(), pattern=_TAG, max_items=MAX_TAGS),
    "enabled": Field(kind=bool, default=True),
    "schedule": Field(kind=str, default="", description="cron(…) or rate(…), UTC; empty: every 30 minutes"),
}
"""What POST /sources and PATCH /sources/{id} take; exactly one of `url`, `inline`, `path`."""


def from_request(body: Mapping[str, Any], *, settings: Settings, now: datetime) -> Source:
    """The source that a POST describes; raises Invalid naming each field, also for a URL that may not be fetched."""
    values = read_fields(body, SOURCE_FIELDS)
    source_id = values.pop("id") or secrets.token_hex(8)
    source = Source(source_id=source_id, created_at=now, **_typed(values))
    _check(source, settings)
    return source


def changes_from_request(body: Mapping[str, Any], source: Source, *, settings: Settings) -> dict[str, Any]:
    """What a PATCH changes, for `SourceTable.update`; raises Invalid. Any edit makes the next scrape read the whole list."""
    fields = {name: field for name, field in SOURCE_FIELDS.items() if name != "id"}
    values = read_fields(body, fields)
    changes = _typed({name: value for name, value in values.items() if name in body})
    _check(replace(source, **changes), settings)
    return {**changes, "etag": ""}


def source_json(source: Source) -> dict[str, Any]:
    """A source as an answer shows it: settings, health, instants as ISO texts or null."""
    return {
        "id": source.source_id,
        "name": source.name,
        "url": source.url or None,
        "inline_bytes": len(source.inline.encode()),  # the list may hold passwords: its size is enough
        "path": source.path or None,
        "allow_http": source.allow_http,
        "parser": source.parser,
        "protocol": source.protocol.value,
        "kind": source.kind.value,
        "tags": sorted(source.tags),
        "enabled": source.enabled,
        "schedule": source.schedule,
        "health": source.health,
        "rows": source.rows,
        "valid": source.valid,
        "new": source.new,
        "rejected": dict(source.rejected),
        "consecutive_failures": source.consecutive_failures,
        "last_error": source.last_error,
        **{name: _iso(getattr(source, name)) for name in ("created_at", "last_scraped_at", "last_success_at")},
    }


def _typed(values: dict[str, Any]) -> dict[str, Any]:
    types = {"protocol": Protocol, "kind": Kind, "tags": frozenset}
    return {name: types[name](value) if name in types else value for name, value in values.items()}


def _check(source: Source, settings: Settings) -> None:
    """Raises Invalid for what no single field tells."""
    errors: dict[str, str] = {}
    if sum(bool(getattr(source, name)) for name in PLACES) != 1:
        errors["url"] = "exactly one of url, inline and path is needed"
    if source.path and not settings.allow_files:
        errors["path"] = "files are read by a local stack only"
    if not is_known(source.parser):
        errors["parser"] = "must be one of " + ", ".join(sorted(formats()))
    try:
        parse_schedule(source.schedule)
    except ValueError as error:
        errors["schedule"] = str(error)
    if source.url and (reason := url_refusal(source, settings)):
        errors["url"] = f"refused: {reason}"
    if errors:
        raise Invalid([{"field": name, "message": message} for name, message in errors.items()])


def url_refusal(source: Source, settings: Settings) -> str:
    """Why the source's URL may not be fetched, as far as its spelling tells; "" where it may. Counts what is not public."""
    local = settings.allow_loopback
    try:
        url = parse_url(source.url, allow_http=source.allow_http or local)
    except AddressRefused as error:
        return error.reason
    reason = refusal(url.host, allow_loopback=local) if is_address(url.host) else ""
    if reason:
        count(Metric.SSRF_BLOCKED)
    elif url.scheme == "http" and not source.allow_http and refusal(url.host) != Refusal.LOOPBACK:
        return Refusal.SCHEME
    return reason


def _iso(instant: datetime | None) -> str | None:
    return None if instant is None else clock.iso(instant)
