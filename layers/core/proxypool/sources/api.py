"""Sources in the API: the fields of a request, their validation, and where to upload a list."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from proxypool import aws
from proxypool.config.settings import Settings
from proxypool.errors import AddressRefused, Invalid
from proxypool.http.fields import request_fields, to_arguments
from proxypool.http.web import Field, read_fields
from proxypool.network.address import (
    FORBIDDEN_NETWORKS,
    Refusal,
    host_refusal,
    parse_http_url,
    refusal_reason,
    without_reasons,
)
from proxypool.proxies.proxy import TAG_PATTERN
from proxypool.sources import source_secret
from proxypool.sources.cron import parse_schedule
from proxypool.sources.formats import formats, is_known
from proxypool.sources.record import UPLOADS, Source
from proxypool.sources.source_secret import fill_url
from proxypool.telemetry import Metric, count

SOURCE_ID_PATTERN: Final = TAG_PATTERN
LOCATIONS: Final = ("url", "inline", "s3", "path")
UPLOAD_SECONDS: Final = 900  # validity of an upload's URL
_CONNECTION_HEADERS: Final = frozenset(
    {"host", "connection", "content-length", "transfer-encoding", "accept-encoding", "te", "upgrade"}
)
_RESETS_BASELINE: Final = frozenset({*LOCATIONS, "parser", "protocol", "expect_one_network"})
"""Fields whose change makes the baseline of the source's lists invalid."""

SOURCE_FIELDS: Final[dict[str, Field]] = {
    "id": Field(pattern=SOURCE_ID_PATTERN, description="chosen by the caller, else random; cannot be changed"),
    **request_fields(Source),
}
"""The body of POST /sources; exactly one of `url`, `inline`, `s3`, `path`."""

PATCH_FIELDS: Final[dict[str, Field]] = {
    **request_fields(Source),
    "accept": Field(
        kind=bool, default=False, description="true: the list is right as it is now; the health rule learns anew"
    ),
}
"""The body of PATCH /sources/{id}."""


def from_request(body: Mapping[str, Any], *, settings: Settings, now: datetime) -> Source:
    """The source of a POST body; raises Invalid naming each field, also for a URL that must not be fetched."""
    return from_values(read_fields(body, SOURCE_FIELDS), settings=settings, now=now)


def from_values(values: Mapping[str, Any], *, settings: Settings, now: datetime) -> Source:
    """The source of parsed values, a member for each of SOURCE_FIELDS; raises Invalid."""
    source = Source(source_id=values["id"] or secrets.token_hex(8), created_at=now, **to_arguments(Source, values))
    _check(source, settings)
    return source


def changes_from_request(values: Mapping[str, Any], source: Source, *, settings: Settings) -> dict[str, Any]:
    """The changes of a PATCH, for `SourceTable.update`, from the members of its body; raises Invalid.

    Any edit makes the next scrape read the whole list, ends a backoff, and ends the claim of a current run.
    """
    changes = to_arguments(Source, values)
    _check(replace(source, **changes), settings)
    if values.get("accept") or _RESETS_BASELINE & changes.keys():
        changes |= {"baseline_rows": 0, "successes": 0, "anomaly_streak": 0, "suspicion": ""}
    cleared = {"etag": "", "last_modified": "", "body_hash": "", "continues": "", "claim": 0, "empty_streak": 0}
    return changes | cleared


def presign_upload(source: Source, settings: Settings) -> dict[str, Any]:
    """A presigned URL for PUT, valid for 15 minutes, for a source whose `s3` is uploads/…; raises Invalid for another source."""
    if not source.s3.startswith(UPLOADS):
        raise Invalid([{"field": "s3", "message": f"only a source whose s3 is {UPLOADS}… takes an upload"}])
    url = aws.client("s3").generate_presigned_url(
        "put_object",
        Params={"Bucket": settings.need("bodies_bucket"), "Key": source.s3},
        ExpiresIn=UPLOAD_SECONDS,
    )
    return {"url": url, "key": source.s3, "method": "PUT", "expires_seconds": UPLOAD_SECONDS}


def _check(source: Source, settings: Settings) -> None:
    """Checks what depends on several fields or on the deployment; raises Invalid."""
    errors: dict[str, str] = {}
    if sum(bool(getattr(source, name)) for name in LOCATIONS) != 1:
        errors["url"] = "exactly one of url, inline, s3 and path is needed"
    errors |= _location_errors(source, settings) | _request_errors(source)
    if not is_known(source.parser):
        errors["parser"] = "must be one of " + ", ".join(sorted(formats()))
    try:
        parse_schedule(source.schedule)
    except ValueError as error:
        errors["schedule"] = str(error)
    if errors:
        raise Invalid([{"field": name, "message": message} for name, message in errors.items()])


def _location_errors(source: Source, settings: Settings) -> dict[str, str]:
    """Errors of the list's location, by field."""
    errors: dict[str, str] = {}
    if source.path and not settings.allow_files:
        errors["path"] = "files are read by a local stack only"
    bucket = source.s3.removeprefix("s3://").partition("/")[0]
    if source.s3.startswith("s3://") and bucket != settings.source_bucket:
        errors["s3"] = "the deployment may read its SourceBucket only"
    if source.url and (reason := url_refusal(source, settings)):
        errors["url"] = f"refused: {reason}"
    return errors


def _request_errors(source: Source) -> dict[str, str]:
    """Errors of headers and secret, by field."""
    errors: dict[str, str] = {}
    names = [line.partition(":")[0].lower() for line in source.headers]
    if _CONNECTION_HEADERS & set(names) or len(set(names)) != len(names):
        errors["headers"] = "each name once, and none that the connection itself sets"
    texts = (source.url, source.inline, *source.headers)
    if any(map(source_secret.has_placeholder, texts)) != bool(source.secret):
        errors |= {"secret": "{secret} in url, headers or inline and the entry that it stands for belong together"}
    if source_secret.has_placeholder(source.url.partition("://")[2].partition("/")[0]):
        errors["url"] = "a secret stands in the path or the query, never in the host"
    return errors


def url_refusal(source: Source, settings: Settings) -> str:
    """The reason why the source's URL must not be fetched, before any DNS lookup; "" if there is none. Counts private addresses."""
    local = settings.allow_loopback
    text = fill_url(lambda _: "x", source.url)
    try:
        url = parse_http_url(text, allow_http=source.allow_http or local)
    except AddressRefused as error:
        return error.reason
    networks = without_reasons(FORBIDDEN_NETWORKS, Refusal.PRIVATE) if source.allow_private else FORBIDDEN_NETWORKS
    reason = host_refusal(url.host, networks=networks, allow_loopback=local)
    if reason:
        count(Metric.SSRF_BLOCKED)
    elif url.scheme == "http" and not source.allow_http and refusal_reason(url.host) != Refusal.LOOPBACK:
        return Refusal.SCHEME
    return reason
