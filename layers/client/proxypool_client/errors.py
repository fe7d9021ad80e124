"""What can go wrong between a worker and the pool.

PoolError
├── Unreachable       no answer, or none that the pool gives
├── Refused           an answer other than success; `problem` is its body (RFC 9457)
│   ├── PoolEmpty     no proxy that fits is free; `reasons` counts why
│   ├── LeaseLost     the lease (or session) is over, released or was never yours
│   ├── NotAllowed    no credentials, expired ones, or ones that may not do this
│   └── VersionConflict  somebody else saved the session first
├── NoPool            no URL of a pool is configured
└── SourceFileError   a file of sources, or a list to upload, cannot be read or sent
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class PoolError(Exception):
    """The root of what this client raises."""


class NoPool(PoolError):
    """Neither an option, nor PROXYPOOL_URL, nor a local stack says where the pool is."""


class Unreachable(PoolError):
    """The API gave no answer within its time, or one that is not the pool's."""


class Refused(PoolError):
    """The API said no: `status`, its `problem`, and after how many seconds a retry may help (None: never)."""

    def __init__(self, status: int, problem: Mapping[str, Any], retry_after_seconds: int | None = None) -> None:
        super().__init__(
            str(problem.get("detail") or problem.get("title") or problem.get("message") or f"HTTP {status}")
        )
        self.status = status
        self.problem = dict(problem)
        self.retry_after_seconds = retry_after_seconds

    @property
    def type(self) -> str:
        """The machine-readable kind, e.g. "pool_empty"."""
        return str(self.problem.get("type", ""))


class PoolEmpty(Refused):
    """No proxy that fits is free."""

    @property
    def reasons(self) -> dict[str, int]:
        """Why, with counts."""
        found = self.problem.get("reasons")
        return dict(found) if isinstance(found, dict) else {}


class LeaseLost(Refused):
    """The lease is over, released, or was never yours: the proxy may be somebody else's now."""


class NotAllowed(Refused):
    """The credentials are missing, expired, or may not do this (401 or 403, from the pool or from the gateway before it)."""


class VersionConflict(Refused):
    """Somebody else saved the session since it was read: read it again, and save on top."""


class SourceFileError(PoolError):
    """A file of sources, or a list to upload, cannot be read or sent; the message is one line naming the file."""
