"""The routes of sources, as the OpenAPI document tells of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from proxypool.errors import VersionConflict
from proxypool.operation import (
    INSTANT,
    SHARE,
    TEXT,
    TRUTH,
    WHOLE,
    Operation,
    Schema,
    maybe,
    one_of,
    ref,
    rows,
    shape,
    table,
)
from proxypool.proxies.proxy import Kind, Protocol
from proxypool.sources.api import PATCH_FIELDS, SOURCE_FIELDS
from proxypool.sources.health import Health

SCHEMAS: Final[Mapping[str, Schema]] = {
    "Source": shape(
        id=TEXT,
        name=TEXT,
        url=maybe(TEXT),
        inline_bytes={**WHOLE, "description": "The list itself may hold passwords: only its size is shown"},
        s3=maybe(TEXT),
        path=maybe(TEXT),
        allow_http=TRUTH,
        allow_private=TRUTH,
        expect_one_network=TRUTH,
        headers={**rows(TEXT), "description": "Their names: a value may be a key"},
        secret=maybe(TEXT),
        timeout_seconds=WHOLE,
        parser=TEXT,
        protocol=one_of(*Protocol),
        kind=one_of(*Kind),
        slots=WHOLE,
        tags=rows(TEXT),
        enabled=TRUTH,
        schedule=TEXT,
        health=one_of(*Health),
        suspicion=maybe(TEXT),
        rows=WHOLE,
        valid=WHOLE,
        new=WHOLE,
        rejected={**table(WHOLE), "description": "How many rows of the last list were skipped, by reason"},
        held_back={**table(WHOLE), "description": "How many of its proxies were held back, by the bound that did"},
        exclusive={**maybe(WHOLE), "description": "Proxies that no other source lists"},
        alive_yield={**maybe(SHARE), "description": "Share of a day's new proxies that lived a day later"},
        trend={**rows(WHOLE), "description": "Good rows of the last lists"},
        consecutive_failures=WHOLE,
        last_error=TEXT,
        created_at=INSTANT,
        last_scraped_at=maybe(INSTANT),
        last_success_at=maybe(INSTANT),
        not_before_at=maybe(INSTANT),
    ),
}
"""The shapes of the answers."""

CHANGED_FIELDS: Final = {name: replace(field, default=None, required=False) for name, field in PATCH_FIELDS.items()}
"""What PATCH takes: what is absent stays as it is."""

OPERATIONS: Final = (
    Operation(
        route="GET /sources", name="listSources", summary="All sources and how they fare",
        answers={200: shape(sources=rows(ref("Source")))},
    ),
    Operation(
        route="POST /sources", name="addSource", summary="Add a list", body=SOURCE_FIELDS,
        description="Exactly one of `url`, `inline`, `s3` and `path`.",
        answers={201: ref("Source")}, errors=(VersionConflict,),
    ),
    Operation(
        route="GET /sources/{id}", name="readSource", summary="One source", answers={200: ref("Source")},
    ),
    Operation(
        route="PATCH /sources/{id}", name="changeSource", summary="Change what is named", body=CHANGED_FIELDS,
        answers={200: ref("Source")},
    ),
    Operation(
        route="DELETE /sources/{id}", name="removeSource", summary="Remove a source; its proxies stay",
        answers={204: None},
    ),
    Operation(
        route="POST /sources/{id}/scrape", name="scrapeSource", summary="Scrape a source now",
        body={}, is_body_required=False, answers={202: shape(source_id=TEXT, queued=TRUTH)},
    ),
    Operation(
        route="POST /sources/{id}/upload", name="uploadList", summary="Where to PUT a large list, within 15 minutes",
        body={}, is_body_required=False,
        answers={201: shape(url=TEXT, key=TEXT, method=TEXT, expires_seconds=WHOLE)},
    ),
)  # fmt: skip
"""The routes."""
