"""The admin's own routes, as the OpenAPI document tells of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from proxypool.checks.rule import RULE_FIELDS
from proxypool.manage.listing import QUERY_FIELDS
from proxypool.manage.service import PROXIES_FIELDS, PROXY_FIELDS, SETTINGS_FIELDS
from proxypool.manage.stats import TASKS
from proxypool.operation import (
    ANYTHING,
    INSTANT,
    NUMBER,
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
from proxypool.proxies.census import COUNTED_STATUSES
from proxypool.proxies.proxy import Anonymity, Kind, Protocol, Status
from proxypool.web import schema_of

_PROXY: Final[dict[str, Schema]] = {
    "id": TEXT,
    "proxy": {**TEXT, "description": "Its URL, the password hidden"},
    "protocol": one_of(*Protocol),
    "status": one_of(*Status),
    "kind": one_of(*Kind),
    "slots": {**WHOLE, "description": "How many may hold it at once: more than one of a gateway"},
    "tags": rows(TEXT),
    "sources": rows(TEXT),
    "score": SHARE,
    "exit_ip": maybe(TEXT),
    "country": maybe(TEXT),
    "exits": {**rows(TEXT), "description": "Others that were seen lately"},
    "region": maybe(TEXT),
    "asn": maybe(WHOLE),
    "anonymity": maybe(one_of(*Anonymity)),
    "anonymity_basis": {**maybe(TEXT), "description": "Which judge said so"},
    "https": TRUTH,
    "tampered": TRUTH,
    "signed": TRUTH,
    "targets": {**table(shape(verdict=TEXT, at=INSTANT)), "description": "What the target rules found, by host"},
    "latency_ms": maybe(NUMBER),
    "reason": {**TEXT, "description": "Of the last failed check; empty after a pass"},
    "blame": TEXT,
    "first_seen_at": INSTANT,
    "last_seen_at": INSTANT,
    "last_checked_at": maybe(INSTANT),
    "next_check_at": maybe(INSTANT),
}
_EXPLAIN: Final = shape(
    score=SHARE, reliability=SHARE, speed=SHARE, stability=SHARE, leasable=TRUTH,
    evidence=shape(
        checks=WHOLE, passed=NUMBER, failed=NUMBER, uptime=maybe(SHARE), leases_ok=NUMBER, leases_bad=NUMBER,
        latency_ms=maybe(NUMBER), jitter_ms=maybe(NUMBER),
    ),
    reasons={**rows(TEXT), "description": "What speaks against leasing it"},
    not_for={**rows(TEXT), "description": "Targets that it does not serve, by the target rules"},
    judged_by=TEXT,
    next={"type": "object", "description": "When it is checked next (`at`), `because` of what, and what that `asks`"},
)  # fmt: skip

SCHEMAS: Final[Mapping[str, Schema]] = {
    "Proxy": shape(**_PROXY),
    "ExplainedProxy": shape(**_PROXY, explain=_EXPLAIN),
    "Settings": shape(
        paused=maybe(TRUTH),
        owner_quota=maybe(WHOLE),
        exit_cap=maybe(WHOLE),
        breaker_failures=maybe(WHOLE),
        breaker_seconds=maybe(WHOLE),
        rates=maybe(rows(TEXT)),
        targets=maybe(rows(schema_of(RULE_FIELDS))),
        frozen=maybe(TRUTH),
    ),
    "Run": shape(
        id=TEXT,
        task=one_of(*TASKS),
        started_at=INSTANT,
        duration_ms=WHOLE,
        status=one_of("done", "failed"),
        counts=table(ANYTHING),
        error=maybe(TEXT),
    ),
    "FailedTry": {
        **shape(task=one_of(*TASKS), reason=TEXT, attempt=WHOLE, at=INSTANT),
        "description": "Of a queue's message: why its last try failed",
    },
    "PoolStats": shape(
        at=INSTANT,
        proxies=maybe(shape(**{status.value: WHOLE for status in COUNTED_STATUSES})),
        overdue=maybe(WHOLE),
        sizes_at=maybe(INSTANT),
        ready=maybe(WHOLE),
        leases_open=maybe(WHOLE),
        gauges_at=maybe(INSTANT),
        last_scrape_at=maybe(INSTANT),
        last_validation_at=maybe(INSTANT),
        sources=table(
            shape(
                rows=WHOLE,
                valid=WHOLE,
                new=WHOLE,
                health=TEXT,
                bytes_today={**WHOLE, "description": "Through its proxies for jobs, since midnight UTC"},
                bytes_this_month=WHOLE,
            )
        ),
        tasks=shape(**{task: maybe(ref("Run")) for task in TASKS}),
    ),
}
"""The shapes of the answers."""

OPERATIONS: Final = (
    Operation(
        route="GET /proxies", name="listProxies", summary="Proxies that fit, page by page", query=QUERY_FIELDS,
        description="A page may hold fewer than `limit`, or none, while more follow: go on until `next` is null.",
        answers={200: shape(proxies=rows(ref("Proxy")), next=maybe(TEXT))},
    ),
    Operation(
        route="POST /proxies", name="addProxies", summary="Add proxies by hand", body=PROXIES_FIELDS,
        answers={202: shape(new=WHOLE, updated=WHOLE, unchanged=WHOLE, rejected=table(WHOLE))},
    ),
    Operation(
        route="GET /proxies/{id}", name="explainProxy", summary="One proxy: why this score, why (not) leased",
        answers={200: ref("ExplainedProxy")},
    ),
    Operation(
        route="PATCH /proxies/{id}", name="changeProxy", summary="Set its tags, its kind, its slots", body=PROXY_FIELDS,
        answers={200: ref("ExplainedProxy")},
    ),
    Operation(
        route="DELETE /proxies/{id}", name="removeProxy", summary="Remove a proxy: no list brings it back",
        answers={204: None},
    ),
    Operation(
        route="POST /proxies/{id}/restore", name="restoreProxy", summary="Take a removal back; the proxy is checked now",
        body={}, is_body_required=False, answers={200: ref("Proxy")},
    ),
    Operation(
        route="GET /settings", name="readSettings", summary="What the operator set; null: the deployment's own value",
        answers={200: ref("Settings")},
    ),
    Operation(
        route="PATCH /settings", name="changeSettings", summary="Set what is named; null goes back to the deployment's",
        body={name: replace(field, default=None) for name, field in SETTINGS_FIELDS.items()},
        answers={200: ref("Settings")},
    ),
    Operation(
        route="POST /pool/rebuild", name="rebuildIndex", summary="Write the index of ready proxies again from the table",
        description="For when the two seem to differ. expire_leases does it, in as many runs as it takes; leases go on.",
        body={}, is_body_required=False, answers={202: shape(wanted_at=INSTANT)},
    ),
    Operation(
        route="GET /tasks/{id}", name="readTask", summary="A run's result, or why a message failed",
        answers={200: {"oneOf": [ref("Run"), ref("FailedTry")]}},
    ),
    Operation(
        route="GET /stats/pool", name="readStats", summary="How the pool is: sizes, yields, each task's last run",
        answers={200: ref("PoolStats")},
    ),
    Operation(
        route="GET /openapi.json", name="readOpenApi", summary="This document", answers={200: {"type": "object"}},
    ),
)  # fmt: skip
"""The routes."""
