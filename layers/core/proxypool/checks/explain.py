"""Why a proxy has its score, why it is, or is not, leased, and when it is looked at next. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from proxypool import clock
from proxypool.checks.cadence import is_full
from proxypool.proxies.proxy import Status
from proxypool.proxies.record import ProxyRecord, fresh_until
from proxypool.proxies.score import score
from proxypool.settings import Settings


def explain(
    record: ProxyRecord, now: datetime, settings: Settings, *, targets: frozenset[str] = frozenset()
) -> dict[str, Any]:
    """`score` (0.0–1.0) with its parts and the evidence behind them, `leasable` with the `reasons` against it (none: []),
    the targets that it is no good for, and the `next` check with what that will ask; `targets` are the rules' hosts.

    It speaks of the record alone: whether somebody holds the proxy now, or its breaker is open, Redis knows.
    """
    parts, facts = score(record.check, record.lease), record.check
    reasons = _against(record, now, settings)
    seen = facts.passed + facts.failed
    return {
        "score": round(parts.value, 4),
        "reliability": round(parts.reliability, 4),
        "speed": round(parts.speed, 4),
        "stability": round(parts.stability, 4),
        "evidence": {
            "checks": facts.count, "passed": round(facts.passed, 2), "failed": round(facts.failed, 2),
            "uptime": round(facts.passed / seen, 4) if seen else None,
            "leases_ok": round(record.lease.ok, 2), "leases_bad": round(record.lease.bad, 2),
            "latency_ms": facts.latency_ms, "jitter_ms": facts.jitter_ms,
        },
        "leasable": not reasons,
        "reasons": reasons,
        "not_for": sorted(host for host, fact in facts.targets.items() if fact.verdict != "ok"),
        "judged_by": facts.basis + ("" if facts.signed or not facts.basis else ", unsigned"),
        "next": _next(record, now, settings, targets),
    }  # fmt: skip


def _against(record: ProxyRecord, now: datetime, settings: Settings) -> list[str]:
    facts, reasons = record.check, []
    if record.status is not Status.ACTIVE:
        reasons.append(f"status is {record.status}")
    if facts.tampered:
        reasons.append("it alters what it carries")
    if facts.failures_in_row:
        reasons.append(
            f"the last check failed: {facts.reason} (blame: {facts.blame}), {facts.failures_in_row} in a row"
        )
    fresh = fresh_until(record, settings.max_age_seconds)
    if fresh is None:
        reasons.append("it was never checked")
    elif fresh < now:
        reasons.append("the last check is too old")
    return reasons


def _next(record: ProxyRecord, now: datetime, settings: Settings, targets: frozenset[str]) -> dict[str, Any]:
    due = record.next_check_at
    if due is None:
        return {"at": None, "because": "a retired proxy is not checked"}
    if record.claim > clock.epoch_ms(now):
        because = "it is being checked"
    elif record.status is Status.UNCHECKED:
        because = "it waits for its first check"
    elif record.status is Status.DEAD:
        because = "it is dead: longer and longer waits, up to a week"
    elif record.check.failures_in_row:
        because = "it failed: soon again"
    else:
        because = "its regular check"
    full = is_full(record, every=settings.check_tls_every, targets=targets)
    return {"at": clock.iso(due), "because": because, "asks": "everything" if full else "HTTP, exit and anonymity"}
