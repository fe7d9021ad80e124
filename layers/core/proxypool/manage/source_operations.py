"""The routes of sources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from proxypool.errors import VersionConflict
from proxypool.http import fields
from proxypool.http.caller import Right
from proxypool.http.operation import BOOLEAN, INTEGER, TEXT, Operation, Schema, array, object_, ref
from proxypool.manage.service import Manager
from proxypool.sources.api import PATCH_FIELDS, SOURCE_FIELDS, SOURCE_ID_PATTERN
from proxypool.sources.record import Source


def schemas() -> Mapping[str, Schema]:
    """The schemas of the answers."""
    return {"Source": fields.json_schema(Source)}


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
        route="GET /sources/{id}", name="readSource", summary="One source", right=Right.OPERATOR, id_pattern=SOURCE_ID_PATTERN,
        call=lambda request: request.service.source(request.id), answers={200: ref("Source")},
    ),
    Operation(
        route="PATCH /sources/{id}", name="changeSource", summary="Update a source", right=Right.OPERATOR,
        call=lambda request: request.service.change_source(request.id, request.body), id_pattern=SOURCE_ID_PATTERN,
        body=PATCH_FIELDS, is_partial=True, answers={200: ref("Source")},
    ),
    Operation(
        route="DELETE /sources/{id}", name="removeSource", summary="Remove a source; its proxies stay",
        right=Right.OPERATOR, id_pattern=SOURCE_ID_PATTERN,
        call=lambda request: request.service.remove_source(request.id), answers={204: None},
    ),
    Operation(
        route="POST /sources/{id}/scrape", name="scrapeSource", summary="Scrape a source now", right=Right.OPERATOR,
        call=lambda request: request.service.scrape(request.id), id_pattern=SOURCE_ID_PATTERN, body={}, is_body_required=False,
        answers={202: object_(source_id=TEXT, queued=BOOLEAN)},
    ),
    Operation(
        route="POST /sources/{id}/upload", name="uploadList", summary="Get a URL to PUT a large list to, valid for 15 minutes",
        right=Right.OPERATOR, id_pattern=SOURCE_ID_PATTERN, body={}, is_body_required=False,
        call=lambda request: request.service.upload(request.id),
        answers={201: object_(url=TEXT, key=TEXT, method=TEXT, expires_seconds=INTEGER)},
    ),
)  # fmt: skip
"""The routes."""
