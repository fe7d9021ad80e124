"""The routes of `manage` beside sources and jobs: proxies, settings, tasks, statistics, the document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from proxypool.checks.rules.target import RULE_FIELDS
from proxypool.http.caller import Right
from proxypool.http.operation import (
    ANYTHING,
    BOOLEAN,
    FRACTION,
    INSTANT,
    INTEGER,
    NUMBER,
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
from proxypool.http.web import schema_of
from proxypool.manage import document
from proxypool.manage.listing import LIST_PROXIES_QUERY, proxy_schema
from proxypool.manage.service import PROXIES_FIELDS, PROXY_FIELDS, SETTINGS_FIELDS, Manager
from proxypool.manage.stats import TASKS
from proxypool.proxies.census import COUNTED_STATUSES
from proxypool.proxies.proxy import ID_PATTERN

_EXPLAIN: Final = object_(
    score=FRACTION, reliability=FRACTION, speed=FRACTION, stability=FRACTION, leasable=BOOLEAN,
    evidence=object_(
        checks=INTEGER, passed=NUMBER, failed=NUMBER, uptime=nullable(FRACTION), leases_ok=NUMBER, leases_bad=NUMBER,
        latency_ms=nullable(NUMBER), jitter_ms=nullable(NUMBER),
    ),
    reasons={**array(TEXT), "description": "What speaks against leasing it"},
    not_for={**array(TEXT), "description": "Targets that it does not serve, by the target rules"},
    judged_by=TEXT,
    next={"type": "object", "description": "When it is checked next (`at`), `because` of what, and what that `asks`"},
)  # fmt: skip


def schemas() -> Mapping[str, Schema]:
    """The schemas of the answers."""
    return {
        "Proxy": proxy_schema(),
        "ExplainedProxy": proxy_schema(explain=_EXPLAIN),
        "Settings": object_(
            paused=nullable(BOOLEAN),
            owner_quota=nullable(INTEGER),
            exit_cap=nullable(INTEGER),
            breaker_failures=nullable(INTEGER),
            breaker_seconds=nullable(INTEGER),
            rates=nullable(array(TEXT)),
            targets=nullable(array(schema_of(RULE_FIELDS))),
            frozen=nullable(BOOLEAN),
        ),
        "Run": object_(
            id=TEXT,
            task=one_of(*TASKS),
            started_at=INSTANT,
            duration_ms=INTEGER,
            status=one_of("done", "failed"),
            counts=map_(ANYTHING),
            error=nullable(TEXT),
        ),
        "FailedTry": {
            **object_(task=one_of(*TASKS), reason=TEXT, attempt=INTEGER, at=INSTANT),
            "description": "Of a queue's message: why its last try failed",
        },
        "PoolStats": object_(
            at=INSTANT,
            proxies=nullable(object_(**{status.value: INTEGER for status in COUNTED_STATUSES})),
            overdue=nullable(INTEGER),
            sizes_at=nullable(INSTANT),
            ready=nullable(INTEGER),
            leases_open=nullable(INTEGER),
            gauges_at=nullable(INSTANT),
            last_scrape_at=nullable(INSTANT),
            last_validation_at=nullable(INSTANT),
            sources=map_(
                object_(
                    rows=INTEGER,
                    valid=INTEGER,
                    new=INTEGER,
                    health=TEXT,
                    bytes_today={**INTEGER, "description": "Through its proxies for jobs, since midnight UTC"},
                    bytes_this_month=INTEGER,
                )
            ),
            tasks=object_(**{task: nullable(ref("Run")) for task in TASKS}),
        ),
    }


RUN_ID_PATTERN: Final = r"[A-Za-z0-9-]{1,128}"

OPERATIONS: Final[tuple[Operation[Manager], ...]] = (
    Operation(
        route="GET /proxies", name="listProxies", summary="Proxies that match, page by page", right=Right.USER,
        description="A page may hold fewer than `limit`, or none, while more follow: go on until `next` is null.",
        call=lambda request: request.service.list_proxies(request.query), query=LIST_PROXIES_QUERY,
        answers={200: object_(proxies=array(ref("Proxy")), next=nullable(TEXT))},
    ),
    Operation(
        route="POST /proxies", name="addProxies", summary="Add proxies by hand", right=Right.OPERATOR,
        call=lambda request: request.service.add_proxies(request.body), body=PROXIES_FIELDS,
        answers={202: object_(new=INTEGER, updated=INTEGER, unchanged=INTEGER, rejected=map_(INTEGER))},
    ),
    Operation(
        route="GET /proxies/{id}", name="explainProxy", summary="One proxy: its score, and why it is or is not leased",
        right=Right.USER, id_pattern=ID_PATTERN,
        call=lambda request: request.service.proxy(request.id), answers={200: ref("ExplainedProxy")},
    ),
    Operation(
        route="PATCH /proxies/{id}", name="changeProxy", summary="Update a proxy", right=Right.OPERATOR,
        call=lambda request: request.service.change_proxy(request.id, request.body), body=PROXY_FIELDS, id_pattern=ID_PATTERN,
        answers={200: ref("ExplainedProxy")},
    ),
    Operation(
        route="DELETE /proxies/{id}", name="removeProxy", summary="Remove a proxy; no list adds it again",
        right=Right.OPERATOR, id_pattern=ID_PATTERN,
        call=lambda request: request.service.remove_proxy(request.id), answers={204: None},
    ),
    Operation(
        route="POST /proxies/{id}/restore", name="restoreProxy", summary="Restore a removed proxy; it is checked at once",
        right=Right.OPERATOR, id_pattern=ID_PATTERN, body={}, is_body_required=False,
        call=lambda request: request.service.restore_proxy(request.id), answers={200: ref("Proxy")},
    ),
    Operation(
        route="GET /settings", name="readSettings", summary="Operator settings; null: the deployment's default",
        right=Right.OPERATOR, call=lambda request: request.service.operator_settings(), answers={200: ref("Settings")},
    ),
    Operation(
        route="PATCH /settings", name="changeSettings", summary="Update operator settings; null restores the default",
        right=Right.OPERATOR, body=SETTINGS_FIELDS, is_partial=True,
        call=lambda request: request.service.change_settings(request.body), answers={200: ref("Settings")},
    ),
    Operation(
        route="POST /pool/rebuild", name="rebuildIndex", summary="Rebuild the index of ready proxies from the table",
        description="For when the two seem to differ. expire_leases does it, in as many runs as it takes; leases go on.",
        right=Right.OPERATOR, body={}, is_body_required=False,
        call=lambda request: request.service.rebuild(), answers={202: object_(wanted_at=INSTANT)},
    ),
    Operation(
        route="GET /tasks/{id}", name="readTask", summary="A run's result, or why a message failed",
        right=Right.OPERATOR, id_pattern=RUN_ID_PATTERN,
        call=lambda request: request.service.task(request.id), answers={200: {"oneOf": [ref("Run"), ref("FailedTry")]}},
    ),
    Operation(
        route="GET /stats/pool", name="readStats", summary="Pool statistics: sizes, yields, each task's last run",
        right=Right.USER, call=lambda request: request.service.pool_stats(), answers={200: ref("PoolStats")},
    ),
    Operation(
        route="GET /openapi.json", name="readOpenApi", summary="This document", right=Right.USER,
        call=lambda request: document.load_openapi(), answers={200: {"type": "object"}},
    ),
)  # fmt: skip
"""The routes."""
