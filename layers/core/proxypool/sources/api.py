"""Sources as the API speaks of them: what a request may say, and what an answer shows."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from proxypool import aws, clock
from proxypool.config.settings import Settings
from proxypool.errors import AddressRefused, Invalid
from proxypool.http.web import Field, read_fields
from proxypool.network.address import (
    FORBIDDEN,
    MAX_URL_CHARS,
    Refusal,
    host_refusal,
    parse_url,
    refusal_reason,
    without_reasons,
)
from proxypool.proxies.proxy import TAG_PATTERN, Kind, Protocol
from proxypool.proxies.record import MAX_SLOTS
from proxypool.sources import source_secret
from proxypool.sources.cron import parse_schedule
from proxypool.sources.formats import AUTO, formats, is_known
from proxypool.sources.record import UPLOADS, Source
from proxypool.sources.source_secret import fill_url
from proxypool.telemetry import Metric, count

_INSTANTS: Final = ("created_at", "last_scraped_at", "last_success_at", "not_before_at")

SOURCE_ID: Final = TAG_PATTERN
MAX_TAGS: Final = 10
PLACES: Final = ("url", "inline", "s3", "path")
MAX_HEADERS: Final = 10
UPLOAD_SECONDS: Final = 900  # how long the URL of an upload holds
_HEADER: Final = r"[A-Za-z0-9-]{1,64}: ?[!-~](?:[ -~]{0,1022}[!-~])?"
_OURS: Final = frozenset(
    {"host", "connection", "content-length", "transfer-encoding", "accept-encoding", "te", "upgrade"}
)
_BASELINE: Final = frozenset({*PLACES, "parser", "protocol", "expect_one_network"})
"""Fields of which a change makes what was usual of the source's lists worthless."""

SOURCE_FIELDS: Final[dict[str, Field]] = {
    "id": Field(kind=str, pattern=SOURCE_ID, description="chosen by the caller, else random; cannot be changed"),
    "name": Field(kind=str, default="", pattern=r"[ -~]{0,80}"),
    "url": Field(
        kind=str, default="", pattern=rf"[!-~]{{0,{MAX_URL_CHARS}}}", description="https, without credentials"
    ),
    "inline": Field(kind=str, default="", description="the list itself"),
    "s3": Field(
        kind=str,
        default="",
        pattern=r"|s3://[a-z0-9.-]{3,63}/[!-~]{1,1024}|uploads/[A-Za-z0-9._-]{1,128}",
        description="an object: s3://bucket/key of the deployment's SourceBucket, or uploads/… for POST /sources/{id}/upload",
    ),
    "path": Field(kind=str, default="", description="a file; on a local stack only"),
    "allow_http": Field(kind=bool, default=False, description="the URL may be plain http"),
    "allow_private": Field(
        kind=bool,
        default=False,
        description="list and proxies may stand in private networks (never link-local, metadata)",
    ),
    "expect_one_network": Field(
        kind=bool, default=False, description="a provider's list or gateway: no caps per host and /24, no health rule"
    ),
    "headers": Field(
        kind=list,
        default=(),
        pattern=_HEADER,
        max_items=MAX_HEADERS,
        description="`Name: value`, sent with the request",
    ),
    "secret": Field(
        kind=str,
        default="",
        pattern=rf"|{source_secret.NAME}",
        description="Secrets Manager entry that stands for {secret} or {secret:member} in url, headers and inline",
    ),
    "timeout_seconds": Field(
        kind=int, default=0, minimum=0, maximum=45, description="for the fetch in all; 0: the deployment's"
    ),
    "parser": Field(kind=str, default=AUTO, pattern=r"[a-z0-9_-]{1,32}(:[A-Za-z0-9_.-]{1,128})?"),
    "protocol": Field(
        kind=str, default=Protocol.HTTP.value, choices=tuple(Protocol), description="of rows without one"
    ),
    "kind": Field(kind=str, default=Kind.UNKNOWN.value, choices=tuple(Kind)),
    "slots": Field(
        kind=int,
        default=1,
        minimum=1,
        maximum=MAX_SLOTS,
        description="how many may hold a new proxy of it at once: more than one of a gateway",
    ),
    "tags": Field(kind=list, default=(), pattern=TAG_PATTERN, max_items=MAX_TAGS),
    "enabled": Field(kind=bool, default=True),
    "schedule": Field(kind=str, default="", description="cron(…) or rate(…), UTC; empty: every 30 minutes"),
}
"""What POST /sources and PATCH /sources/{id} take; exactly one of `url`, `inline`, `s3`, `path`."""

PATCH_FIELDS: Final[dict[str, Field]] = {name: field for name, field in SOURCE_FIELDS.items() if name != "id"} | {
    "accept": Field(
        kind=bool, default=False, description="true: the list is right as it is now; the health rule learns anew"
    ),
}
"""What PATCH /sources/{id} takes."""


def from_request(body: Mapping[str, Any], *, settings: Settings, now: datetime) -> Source:
    """The source that a POST describes; raises Invalid naming each field, also for a URL that may not be fetched."""
    return from_values(read_fields(body, SOURCE_FIELDS), settings=settings, now=now)


def from_values(values: Mapping[str, Any], *, settings: Settings, now: datetime) -> Source:
    """The source of values that are read already, a member for each of SOURCE_FIELDS; raises Invalid."""
    rest = {name: value for name, value in values.items() if name != "id"}
    source = Source(source_id=values["id"] or secrets.token_hex(8), created_at=now, **_typed(rest))
    _check(source, settings)
    return source


def changes_from_request(values: Mapping[str, Any], source: Source, *, settings: Settings) -> dict[str, Any]:
    """What a PATCH changes, for `SourceTable.update`, from the values that it names; raises Invalid.

    Any edit makes the next scrape read the whole list, at once if need be, and ends the claim of a run that goes on now.
    """
    accept = values.get("accept", False)
    changes = _typed({name: value for name, value in values.items() if name != "accept"})
    _check(replace(source, **changes), settings)
    if accept or _BASELINE & changes.keys():
        changes |= {"usual": 0, "successes": 0, "suspicions": 0, "suspicion": ""}
    cleared = {"etag": "", "last_modified": "", "body_hash": "", "continues": "", "claim": 0, "barren": 0}
    return changes | cleared


def upload(source: Source, settings: Settings) -> dict[str, Any]:
    """Where to PUT the list of a source whose `s3` is uploads/…, within 15 minutes; raises Invalid for another source."""
    if not source.s3.startswith(UPLOADS):
        raise Invalid([{"field": "s3", "message": f"only a source whose s3 is {UPLOADS}… takes an upload"}])
    url = aws.client("s3").generate_presigned_url(
        "put_object",
        Params={"Bucket": settings.need("bodies_bucket"), "Key": source.s3},
        ExpiresIn=UPLOAD_SECONDS,
    )
    return {"url": url, "key": source.s3, "method": "PUT", "expires_seconds": UPLOAD_SECONDS}


def source_json(source: Source) -> dict[str, Any]:
    """A source as an answer shows it: settings, health, instants as ISO texts or null."""
    return {
        "id": source.source_id,
        "name": source.name,
        "url": source.url or None,
        "inline_bytes": len(source.inline.encode()),  # the list may hold passwords: its size is enough
        "s3": source.s3 or None,
        "path": source.path or None,
        "allow_http": source.allow_http,
        "allow_private": source.allow_private,
        "expect_one_network": source.expect_one_network,
        "headers": [line.partition(":")[0] for line in source.headers],  # a value may be a key that somebody pasted
        "secret": source.secret or None,
        "timeout_seconds": source.timeout_seconds,
        "parser": source.parser,
        "protocol": source.protocol.value,
        "kind": source.kind.value,
        "slots": source.slots,
        "tags": sorted(source.tags),
        "enabled": source.enabled,
        "schedule": source.schedule,
        "health": source.health.value,
        "suspicion": source.suspicion or None,
        "rows": source.rows,
        "valid": source.valid,
        "new": source.new,
        "rejected": dict(source.rejected),
        "held_back": dict(source.held_back),
        "exclusive": source.exclusive,
        "alive_yield": None if source.alive_yield is None else round(source.alive_yield, 4),
        "trend": list(source.trend),
        "consecutive_failures": source.consecutive_failures,
        "last_error": source.last_error,
        **{name: _iso(getattr(source, name)) for name in _INSTANTS},
    }


def _typed(values: dict[str, Any]) -> dict[str, Any]:
    types = {"protocol": Protocol, "kind": Kind, "tags": frozenset, "headers": tuple}
    return {name: types[name](value) if name in types else value for name, value in values.items()}


def _check(source: Source, settings: Settings) -> None:
    """Raises Invalid for what no single field tells."""
    errors: dict[str, str] = {}
    if sum(bool(getattr(source, name)) for name in PLACES) != 1:
        errors["url"] = "exactly one of url, inline, s3 and path is needed"
    errors |= _wrong_place(source, settings) | _wrong_request(source)
    if not is_known(source.parser):
        errors["parser"] = "must be one of " + ", ".join(sorted(formats()))
    try:
        parse_schedule(source.schedule)
    except ValueError as error:
        errors["schedule"] = str(error)
    if errors:
        raise Invalid([{"field": name, "message": message} for name, message in errors.items()])


def _wrong_place(source: Source, settings: Settings) -> dict[str, str]:
    """What is wrong about where the list is, by field."""
    errors: dict[str, str] = {}
    if source.path and not settings.allow_files:
        errors["path"] = "files are read by a local stack only"
    bucket = source.s3.removeprefix("s3://").partition("/")[0]
    if source.s3.startswith("s3://") and bucket != settings.source_bucket:
        errors["s3"] = "the deployment may read its SourceBucket only"
    if source.url and (reason := url_refusal(source, settings)):
        errors["url"] = f"refused: {reason}"
    return errors


def _wrong_request(source: Source) -> dict[str, str]:
    """What is wrong about headers and secret, by field."""
    errors: dict[str, str] = {}
    names = [line.partition(":")[0].lower() for line in source.headers]
    if _OURS & set(names) or len(set(names)) != len(names):
        errors["headers"] = "each name once, and none that the connection itself sets"
    texts = (source.url, source.inline, *source.headers)
    if any(map(source_secret.has_placeholder, texts)) != bool(source.secret):
        errors |= {"secret": "{secret} in url, headers or inline and the entry that it stands for belong together"}
    if source_secret.has_placeholder(source.url.partition("://")[2].partition("/")[0]):
        errors["url"] = "a secret stands in the path or the query, never in the host"
    return errors


def url_refusal(source: Source, settings: Settings) -> str:
    """Why the source's URL may not be fetched, as far as its spelling tells; "" where it may. Counts what is not public."""
    local = settings.allow_loopback
    text = fill_url(lambda _: "x", source.url)
    try:
        url = parse_url(text, allow_http=source.allow_http or local)
    except AddressRefused as error:
        return error.reason
    networks = without_reasons(FORBIDDEN, Refusal.PRIVATE) if source.allow_private else FORBIDDEN
    reason = host_refusal(url.host, networks=networks, allow_loopback=local)
    if reason:
        count(Metric.SSRF_BLOCKED)
    elif url.scheme == "http" and not source.allow_http and refusal_reason(url.host) != Refusal.LOOPBACK:
        return Refusal.SCHEME
    return reason


def _iso(instant: datetime | None) -> str | None:
    return None if instant is None else clock.iso(instant)
