"""What is kept and what goes: two rules, pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from proxypool import clock
from proxypool.proxies.proxy import Status
from proxypool.proxies.record import ProxyRecord


def is_prunable(record: ProxyRecord, *, now: datetime, days: int) -> bool:
    """Dead, and the last success (else the first sighting) or the last check is over so many days ago."""
    if record.status is not Status.DEAD:
        return False
    line = now - timedelta(days=days)
    alive_at = record.check.last_success_at or record.first_seen_at
    return alive_at < line or (record.last_checked_at is not None and record.last_checked_at < line)


def prunable_checks(keys_newest_first: Sequence[str], *, now: datetime, days: int, keep: int) -> list[str]:
    """The keys of checks that are older than so many days and not among the newest `keep`."""
    line = clock.iso(now - timedelta(days=days))
    return [key for key in keys_newest_first[keep:] if key < line]
