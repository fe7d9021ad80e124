"""Retention rules for dead proxies and old checks. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from proxypool import clock
from proxypool.proxies.proxy import Status
from proxypool.proxies.record import ProxyRecord


def is_prunable(record: ProxyRecord, *, now: datetime, days: int) -> bool:
    """True for a dead proxy with its last success (else first sighting) or its last check more than `days` ago."""
    if record.status is not Status.DEAD:
        return False
    cutoff = now - timedelta(days=days)
    alive_at = record.check.last_success_at or record.first_seen_at
    return alive_at < cutoff or (record.last_checked_at is not None and record.last_checked_at < cutoff)


def prunable_checks(keys_newest_first: Sequence[str], *, now: datetime, days: int, keep: int) -> list[str]:
    """The keys of checks that are older than `days` and not among the newest `keep`."""
    cutoff = clock.iso(now - timedelta(days=days))
    return [key for key in keys_newest_first[keep:] if key < cutoff]
