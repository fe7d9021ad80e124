"""The client's errors.

PoolError
├── Unreachable       no response, or not one of the pool
├── ApiError          an error response; `problem` is its body (RFC 9457)
│   ├── PoolEmpty     no free proxy matches; `reasons` counts why
│   ├── LeaseLost     the lease (or session) has expired, was released, or belongs to another owner
│   ├── NotAllowed    credentials are missing, expired, or not permitted to do this
│   └── VersionConflict  another client saved the session first
├── NoPool            no URL of a pool is configured
└── SourceFileError   a file of sources, or a list to upload, cannot be read or sent
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class PoolError(Exception):
    """Base class of this client's errors."""


class NoPool(PoolError):
    """No URL of a pool: neither as an argument, nor in PROXYPOOL_URL, nor from a local stack."""


class Unreachable(PoolError):
    """The API did not respond in time, or the response is not one of the pool."""


class ApiError(PoolError):
    """An error response: its HTTP `status`, its `problem`, and its Retry-After in seconds (None: do not retry)."""

    def __init__(self, status: int, problem: Mapping[str, Any], retry_after_seconds: int | None = None) -> None:
        super().__init__(
            str(problem.get("detail") or problem.get("title") or problem.get("message") or f"HTTP {status}")
        )
        self.status = status
        self.problem = dict(problem)
        self.retry_after_seconds = retry_after_seconds

    @property
    def type(self) -> str:
        """The machine-readable type, e.g. "pool_empty"; "" if the response has none."""
        return str(self.problem.get("type", ""))


class PoolEmpty(ApiError):
    """No free proxy matches."""

    @property
    def reasons(self) -> dict[str, int]:
        """The number of proxies per reason that excludes them, e.g. {"leased": 3}."""
        reasons = self.problem.get("reasons")
        return dict(reasons) if isinstance(reasons, dict) else {}


class LeaseLost(ApiError):
    """The lease has expired, was released, or belongs to another owner: another holder may have the proxy now."""


class NotAllowed(ApiError):
    """The credentials are missing, expired, or not permitted to do this (401 or 403, from the pool or from API Gateway)."""


class VersionConflict(ApiError):
    """Another client saved the session since it was read: read it again, and save the rebased session."""


class SourceFileError(PoolError):
    """A file of sources, or a list to upload, cannot be read or sent; the message is one line naming the file."""
