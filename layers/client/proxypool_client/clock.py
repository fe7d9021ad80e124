"""The wall clock: the one place where the client and the service read it, so that tests can replace it.

Durations (timeouts, deadlines within a process) are measured with `time.monotonic` instead.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime


def system() -> datetime:
    """The machine's clock, in UTC."""
    return datetime.now(UTC)  # noqa: TID251


source: Callable[[], datetime] = system
"""The source of `now`; tests replace it."""


def now() -> datetime:
    """The current instant, in UTC."""
    return source()
