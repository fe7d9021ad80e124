"""Conversions of time: aware UTC datetimes internally, epoch numbers in storage, ISO 8601 in JSON.

`now` is the only place where the service reads the wall clock; tests replace its source (`proxypool_client.clock.source`).
"""

from __future__ import annotations

from datetime import UTC, datetime

from proxypool_client.clock import now

__all__ = ["epoch", "epoch_ms", "from_epoch", "iso", "now"]


def epoch(instant: datetime) -> int:
    """Whole seconds since 1970."""
    return int(instant.timestamp())


def epoch_ms(instant: datetime) -> int:
    """Whole milliseconds since 1970."""
    return round(instant.timestamp() * 1000)


def from_epoch(seconds: float) -> datetime:
    """The UTC datetime of a Unix timestamp."""
    return datetime.fromtimestamp(seconds, UTC)


def iso(instant: datetime) -> str:
    """ISO 8601 in UTC with milliseconds, e.g. 2026-11-30T04:19:24.000Z."""
    return instant.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
