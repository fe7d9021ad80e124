"""Time, in the three forms that the pool uses: aware UTC datetimes inside, epoch numbers at the edges, ISO 8601 in texts.

`now` is the service's only reading of the wall clock; tests replace what it reads (`proxypool_client.clock.source`).
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
    """The instant that many seconds after 1970, in UTC."""
    return datetime.fromtimestamp(seconds, UTC)


def iso(instant: datetime) -> str:
    """ISO 8601 in UTC with milliseconds, e.g. 2026-11-30T04:19:24.000Z."""
    return instant.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
