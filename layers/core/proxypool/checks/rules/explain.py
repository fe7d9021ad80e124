"""Explains a proxy's score, its eligibility for leases and its next check. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from proxypool import clock
from proxypool.checks.rules.cadence import needs_full_check
from proxypool.config.settings import Settings
from proxypool.proxies.proxy import Status
from proxypool.proxies.record import ProxyRecord, fresh_until
from proxypool.proxies.score import score


def explain(
    record: ProxyRecord, now: datetime, settings: Settings, *, targets: frozenset[str] = frozenset()
) -> dict[str, Any]:
    """`score` (0.0–1.0) with its parts and evidence; `leasable` with the `reasons` against it ([] if leasable);
    `not_for`: hosts of targets that do not serve the proxy; and the `next` check.

    Based on the record alone: whether the proxy is leased now or its circuit breaker is open is in Redis. `targets` are
    the hosts of the target rules.
    """
    parts, facts = score(record.check, record.lease), record.check
    reasons = _reasons_not_leasable(record, now, settings)
    decided = facts.passed + facts.failed
    return {
        "score": round(parts.value, 4),
        "reliability": round(parts.reliability, 4),
        "speed": round(parts.speed, 4),
        "stability": round(parts.stability, 4),
        "evidence": {
            "checks": facts.count, "passed": round(facts.passed, 2), "failed": round(facts.failed, 2),
            "uptime": round(facts.passed / decided, 4) if decided else None,
            "leases_ok": round(record.lease.ok, 2), "leases_bad": round(record.lease.bad, 2),
            "latency_ms": facts.latency_ms, "jitter_ms": facts.jitter_ms,
        },
        "leasable": not reasons,
        "reasons": reasons,
        "not_for": sorted(host for host, fact in facts.targets.items() if fact.verdict != "ok"),
        "judged_by": facts.anonymity_basis + ("" if facts.signed or not facts.anonymity_basis else ", unsigned"),
        "next": _next_check(record, now, settings, targets),
    }  # fmt: skip


def _reasons_not_leasable(record: ProxyRecord, now: datetime, settings: Settings) -> list[str]:
    facts, reasons = record.check, []
    if record.status is not Status.ACTIVE:
        reasons.append(f"status is {record.status}")
    if facts.tampered:
        reasons.append("alters content")
    if facts.failures_in_row:
        reasons.append(f"last check failed: {facts.reason} (blame: {facts.blame}), {facts.failures_in_row} in a row")
    valid_until = fresh_until(record, settings.max_age_seconds)
    if valid_until is None:
        reasons.append("never checked")
    elif valid_until < now:
        reasons.append("last check is too old")
    return reasons


def _next_check(record: ProxyRecord, now: datetime, settings: Settings, targets: frozenset[str]) -> dict[str, Any]:
    due = record.next_check_at
    if due is None:
        return {"at": None, "because": "retired proxies are not checked"}
    if record.claim > clock.epoch_ms(now):
        because = "check in progress"
    elif record.status is Status.UNCHECKED:
        because = "waiting for the first check"
    elif record.status is Status.DEAD:
        because = "dead: the interval doubles, up to a week"
    elif record.check.failures_in_row:
        because = "quick recheck after a failure"
    else:
        because = "regular check"
    full = needs_full_check(record, every_nth=settings.check_tls_every, targets=targets)
    return {"at": clock.iso(due), "because": because, "asks": "all stages" if full else "HTTP, exit and anonymity"}
