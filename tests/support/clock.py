"""The pool's clock in a test process: the wall clock moved to a fixed instant, for the product and for its scripts on Redis.

Real servers (Valkey, the emulated AWS, stacks in processes of their own) keep their own time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from hashlib import sha1
from typing import Final
from unittest import mock

from proxypool.leases.redis import scripts
from proxypool_client import clock

TIME: Final = re.compile(r"(?:redis\.)?call\('TIME'\)")
APPEND: Final = "'XADD', JOURNAL, '*'"
MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(slots=True)
class Clock:
    """Runs `offset` away from the wall clock, until `set` stops it; then it moves by hand only.

    Keys that Redis itself ages out (TTL) keep the server's time. A pool's journal takes no entry from before its last one, so
    that a test which goes back in time needs a pool of its own.
    """

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

    def stop(self) -> datetime:
        """Stops at a whole second, and returns it."""
        self._stopped_at = self.now().replace(microsecond=0) + timedelta(seconds=1)
        return self._stopped_at

    def move(self, *, seconds: float) -> None:
        """Moves on by that many seconds; a clock that runs, runs on from there."""
        if self._stopped_at is None:
            self.offset += timedelta(seconds=seconds)
        else:
            self._stopped_at += timedelta(seconds=seconds)

    def resume(self) -> None:
        """Runs again, from no earlier instant than it stopped at."""
        if self._stopped_at is not None:
            self.offset = max(self.offset, self._stopped_at - clock.system())
        self._stopped_at = None

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Within, the product and the scripts that it sends to Redis read this clock."""
        original = scripts.source

        def source(script: str) -> tuple[str, str]:
            return retimed(original(script)[0], self._time())

        with mock.patch.object(clock, "source", self.now), mock.patch.object(scripts, "source", source):
            yield

    def _time(self) -> str:
        """The answer to TIME (seconds and microseconds, as texts), as an expression of Lua."""
        if self._stopped_at is not None:
            return f"{{'{int(self._stopped_at.timestamp())}', '{self._stopped_at.microsecond}'}}"
        return (
            "(function() local real = redis.call('TIME') "
            f"local us = real[1] * 1000000 + real[2] + ({self.offset // MICROSECOND}) "
            "return {string.format('%.0f', math.floor(us / 1000000)), string.format('%.0f', us % 1000000)} end)()"
        )


@lru_cache(64)
def retimed(script: str, time: str) -> tuple[str, str]:
    """A script that takes the time, also for its entries in the journal, from that expression instead of TIME; and its hash."""
    text, count = TIME.subn(lambda _: time, script)
    assert count == 1, "each script reads the time once"
    text = text.replace(APPEND, "'XADD', JOURNAL, t[1] .. ('00000' .. t[2]):sub(-6, -4) .. '-*'")
    return text, sha1(text.encode(), usedforsecurity=False).hexdigest()
