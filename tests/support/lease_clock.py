"""A server's clock that tests move: the scripts read it from a key of the pool instead of TIME."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha1
from unittest import mock

from proxypool import clock
from proxypool.leases.redis import scripts
from proxypool.leases.redis.cache import Cache

REAL = "local instant = t[1]"
MOVED = "local instant = call('GET', P .. 'testclock') or t[1]"


@contextmanager
def movable() -> Iterator[None]:
    """Within, every script's time is what `set_clock` said last for its pool (before: the server's)."""
    real = scripts.source

    def source(script: str) -> tuple[str, str]:
        text, _ = real(script)
        assert REAL in text
        text = text.replace(REAL, MOVED)
        return text, sha1(text.encode(), usedforsecurity=False).hexdigest()

    with mock.patch.object(scripts, "source", source):
        yield


def set_clock(of: Cache, ms: int) -> None:
    """Sets the pool's clock to that instant, in epoch milliseconds."""
    of.command("SET", f"{of.keys.tag}:testclock", ms)


def now_ms() -> int:
    """The pool's clock in this process, in epoch milliseconds."""
    return clock.epoch_ms(clock.now())
