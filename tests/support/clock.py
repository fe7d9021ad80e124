"""The pool's clock in a test process: the wall clock moved to a fixed instant, for the product and for its scripts on Redis.

Real servers (Valkey, the emulated AWS, stacks in processes of their own) keep their own time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import sha1
from typing import Final
from unittest import mock

from proxypool.leases import cache
from proxypool_client import clock

TIME: Final = re.compile(r"(?:redis\.)?call\('TIME'\)")
APPEND: Final = "'XADD', LOG, '*'"
MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(slots=True)
class Clock:
    """Runs `offset` away from the wall clock, until `set` stops it; then it only moves by hand."""

    offset: timedelta = timedelta()
    _stopped_at: datetime | None = field(default=None, repr=False)

    def now(self) -> datetime:
        """The current instant, in UTC."""
        return self._stopped_at or clock.system() + self.offset

    def start(self, instant: datetime) -> None:
        """Runs on from that instant."""
        self.offset, self._stopped_at = instant - clock.system(), None

    def set(self, instant: datetime) -> None:
        """Stops at that instant."""
        self._stopped_at = instant

    def move(self, *, seconds: float) -> None:
        """Stops at the instant that many seconds from now (or before it)."""
        self._stopped_at = self.now() + timedelta(seconds=seconds)

    def resume(self) -> None:
        """Runs again, as before `set` and `move`."""
        self._stopped_at = None

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Within, the product and the scripts that it sends to Redis read this clock; a stopped clock stops the product only."""
        original = cache.source

        def source(script: str) -> tuple[str, str]:
            text = shifted(original(script)[0], self.offset)
            return text, sha1(text.encode(), usedforsecurity=False).hexdigest()

        with mock.patch.object(clock, "source", self.now), mock.patch.object(cache, "source", source):
            yield


def shifted(script: str, offset: timedelta) -> str:
    """A script whose TIME, and whose ids in the journal, are that far from the server's clock."""
    moved = (
        "(function() local real = redis.call('TIME') "
        f"local us = real[1] * 1000000 + real[2] + ({offset // MICROSECOND}) "
        "return {string.format('%.0f', math.floor(us / 1000000)), string.format('%.0f', us % 1000000)} end)()"
    )
    text, count = TIME.subn(moved, script)
    assert count == 1, "each script reads the time once"
    return text.replace(APPEND, "'XADD', LOG, t[1] .. ('00000' .. t[2]):sub(-6, -4) .. '-*'")
