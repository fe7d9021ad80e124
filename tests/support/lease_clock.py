"""A server clock set by tests: the lease scripts read it from a key of the pool instead of TIME."""

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
def movable_clock() -> Iterator[None]:
    """Within the block, scripts read the time of `set_clock`; before its first call, that of the server."""
    real = scripts.source

    def source(script: str) -> tuple[str, str]:
        text, _ = real(script)
        assert REAL in text
        text = text.replace(REAL, MOVED)
        return text, sha1(text.encode(), usedforsecurity=False).hexdigest()

    with mock.patch.object(scripts, "source", source):
        yield


def set_clock(cache: Cache, ms: int) -> None:
    """Sets the clock of the cache's pool, in epoch milliseconds."""
    cache.command("SET", f"{cache.keys.tag}:testclock", ms)


def now_ms() -> int:
    """The pool's clock in this process, in epoch milliseconds."""
    return clock.epoch_ms(clock.now())
