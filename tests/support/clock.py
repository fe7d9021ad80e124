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
    """A clock at an offset from the wall clock; `set` and `stop` stop it, then it is moved by hand.

    Keys with a TTL expire by the server's time. A journal accepts no entry older than its last one, so that a test that goes back
    in time needs a new pool.
    """

    offset: timedelta = timedelta()
    _stopped_at: datetime | None = field(default=None, repr=False)

    def now(self) -> datetime:
        """The current instant, in UTC."""
        return self._stopped_at or clock.system() + self.offset

    def start(self, instant: datetime) -> None:
        """Sets the clock to that instant, running."""
        self.offset, self._stopped_at = instant - clock.system(), None

    def set(self, instant: datetime) -> None:
        """Stops the clock at that instant."""
        self._stopped_at = instant

    def stop(self) -> datetime:
        """Stops the clock at the next whole second, and returns it."""
        self._stopped_at = self.now().replace(microsecond=0) + timedelta(seconds=1)
        return self._stopped_at

    def move(self, *, seconds: float) -> None:
        """Moves the clock by that many seconds; it stays running or stopped."""
        if self._stopped_at is None:
            self.offset += timedelta(seconds=seconds)
        else:
            self._stopped_at += timedelta(seconds=seconds)

    def resume(self) -> None:
        """Starts the clock again; it does not go back."""
        if self._stopped_at is not None:
            self.offset = max(self.offset, self._stopped_at - clock.system())
        self._stopped_at = None

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Within the block, the product and the scripts that it sends to Redis read this clock."""
        original = scripts.source

        def source(script: str) -> tuple[str, str]:
            return retimed(original(script)[0], self._time())

        with mock.patch.object(clock, "source", self.now), mock.patch.object(scripts, "source", source):
            yield

    def _time(self) -> str:
        """A Lua expression for the response of TIME (seconds and microseconds, as strings)."""
        if self._stopped_at is not None:
            return f"{{'{int(self._stopped_at.timestamp())}', '{self._stopped_at.microsecond}'}}"
        return (
            "(function() local real = redis.call('TIME') "
            f"local us = real[1] * 1000000 + real[2] + ({self.offset // MICROSECOND}) "
            "return {string.format('%.0f', math.floor(us / 1000000)), string.format('%.0f', us % 1000000)} end)()"
        )


@lru_cache(64)
def retimed(script: str, time: str) -> tuple[str, str]:
    """A script that reads the time, also for its journal entries, from that expression instead of TIME; and its hash."""
    text, count = TIME.subn(lambda _: time, script)
    assert count == 1, "each script reads the time once"
    text = text.replace(APPEND, "'XADD', JOURNAL, t[1] .. ('00000' .. t[2]):sub(-6, -4) .. '-*'")
    return text, sha1(text.encode(), usedforsecurity=False).hexdigest()
