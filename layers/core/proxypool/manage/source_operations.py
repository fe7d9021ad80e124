"""The routes of sources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from proxypool.errors import VersionConflict
from proxypool.http.caller import Right
from proxypool.http.operation import (
    BOOLEAN,
    FRACTION,
    INSTANT,
    INTEGER,
    TEXT,
    Operation,
    Schema,
    array,
    map_,
    nullable,
    object_,
    one_of,
    ref,
)
from proxypool.manage.service import Manager
from proxypool.proxies.proxy import Kind, Protocol
from proxypool.sources.api import PATCH_FIELDS, SOURCE_FIELDS, SOURCE_ID
from proxypool.sources.health import Health

SCHEMAS: Final[Mapping[str, Schema]] = {
    "Source": object_(
        id=TEXT,
        name=TEXT,
        url=nullable(TEXT),
        inline_bytes={**INTEGER, "description": "The list itself may hold passwords: only its size is shown"},
        s3=nullable(TEXT),
        path=nullable(TEXT),
        allow_http=BOOLEAN,
        allow_private=BOOLEAN,
        expect_one_network=BOOLEAN,
        headers={**array(TEXT), "description": "Their names: a value may be a key"},
        secret=nullable(TEXT),
        timeout_seconds=INTEGER,
        parser=TEXT,
        protocol=one_of(*Protocol),
        kind=one_of(*Kind),
        slots=INTEGER,
        tags=array(TEXT),
        enabled=BOOLEAN,
        schedule=TEXT,
        health=one_of(*Health),
        suspicion=nullable(TEXT),
        rows=INTEGER,
        valid=INTEGER,
        new=INTEGER,
        rejected={**map_(INTEGER), "description": "How many rows of the last list were skipped, by reason"},
        held_back={**map_(INTEGER), "description": "How many of its proxies were held back, by the bound that did"},
        exclusive={**nullable(INTEGER), "description": "Proxies that no other source lists"},
        alive_yield={**nullable(FRACTION), "description": "Share of a day's new proxies that lived a day later"},
        trend={**array(INTEGER), "description": "Good rows of the last lists"},
        consecutive_failures=INTEGER,
        last_error=TEXT,
        created_at=INSTANT,
        last_scraped_at=nullable(INSTANT),
        last_success_at=nullable(INSTANT),
        not_before_at=nullable(INSTANT),
    ),
}
"""The shapes of the answers."""

OPERATIONS: Final[tuple[Operation[Manager], ...]] = (
    Operation(
        route="GET /sources", name="listSources", summary="All sources with their health", right=Right.OPERATOR,
        call=lambda request: request.service.list_sources(), answers={200: object_(sources=array(ref("Source")))},
    ),
    Operation(
        route="POST /sources", name="addSource", summary="Add a source", right=Right.OPERATOR,
        description="Exactly one of `url`, `inline`, `s3` and `path`.",
        call=lambda request: request.service.add_source(request.body), body=SOURCE_FIELDS,
        answers={201: ref("Source")}, errors=(VersionConflict,),
    ),
    Operation(
        route="GET /sources/{id}", name="readSource", summary="One source", right=Right.OPERATOR, id_pattern=SOURCE_ID,
        call=lambda request: request.service.source(request.id), answers={200: ref("Source")},
    ),
    Operation(
        route="PATCH /sources/{id}", name="changeSource", summary="Update a source", right=Right.OPERATOR,
        call=lambda request: request.service.change_source(request.id, request.body), id_pattern=SOURCE_ID,
        body=PATCH_FIELDS, is_partial=True, answers={200: ref("Source")},
    ),
    Operation(
        route="DELETE /sources/{id}", name="removeSource", summary="Remove a source; its proxies stay",
        right=Right.OPERATOR, id_pattern=SOURCE_ID,
        call=lambda request: request.service.remove_source(request.id), answers={204: None},
    ),
    Operation(
        route="POST /sources/{id}/scrape", name="scrapeSource", summary="Scrape a source now", right=Right.OPERATOR,
        call=lambda request: request.service.scrape(request.id), id_pattern=SOURCE_ID, body={}, is_body_required=False,
        answers={202: object_(source_id=TEXT, queued=BOOLEAN)},
    ),
    Operation(
        route="POST /sources/{id}/upload", name="uploadList", summary="Get a URL to PUT a large list to, valid for 15 minutes",
        right=Right.OPERATOR, id_pattern=SOURCE_ID, body={}, is_body_required=False,
        call=lambda request: request.service.upload(request.id),
        answers={201: object_(url=TEXT, key=TEXT, method=TEXT, expires_seconds=INTEGER)},
    ),
)  # fmt: skip
"""The routes."""
