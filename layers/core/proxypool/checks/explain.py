"""Why a proxy is, or is not, leased: the parts of its score, and each reason against it. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from proxypool.proxies.proxy import Status
from proxypool.proxies.record import ProxyRecord
from proxypool.proxies.score import score
from proxypool.settings import Settings

CADENCES_FRESH = 3  # a check is fresh for three of its proxy's own intervals, an hour at least


def explain(record: ProxyRecord, now: datetime, settings: Settings) -> dict[str, Any]:
    """The score with its parts (0.0–1.0), `leasable`, and `reasons` (empty where nothing speaks against it)."""
    parts = score(record.check, record.lease)
    reasons = _against(record, now, settings)
    return {
        "score": round(parts.value, 4),
        "reliability": round(parts.reliability, 4),
        "speed": round(parts.speed, 4),
        "stability": round(parts.stability, 4),
        "leasable": not reasons,
        "reasons": reasons,
    }


def _against(record: ProxyRecord, now: datetime, settings: Settings) -> list[str]:
    reasons = []
    if record.status is not Status.ACTIVE:
        reasons.append(f"status is {record.status}")
    if record.check.tampered:
        reasons.append("it alters what it carries")
    if record.check.failures_in_row:
        reasons.append(f"the last check failed: {record.check.reason}")
    fresh = max(settings.max_age_seconds, CADENCES_FRESH * record.check.interval_seconds)
    if record.last_checked_at is None or record.last_checked_at + timedelta(seconds=fresh) < now:
        reasons.append("the last check is too old")
    return reasons
