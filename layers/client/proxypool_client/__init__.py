"""Lease proxies from a proxy pool over HTTP."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from proxypool_client.aio import AsyncPool
    from proxypool_client.bans import Finding, Rule, classify_response
    from proxypool_client.errors import (
        ApiError,
        LeaseLost,
        NoPool,
        NotAllowed,
        PoolEmpty,
        PoolError,
        Unreachable,
        VersionConflict,
    )
    from proxypool_client.outcome import Outcome
    from proxypool_client.pool import Lease, Pool, classify_error
    from proxypool_client.sessions import Session

__all__ = [
    "ApiError",
    "AsyncPool",
    "Finding",
    "Lease",
    "LeaseLost",
    "NoPool",
    "NotAllowed",
    "Outcome",
    "Pool",
    "PoolEmpty",
    "PoolError",
    "Rule",
    "Session",
    "Unreachable",
    "VersionConflict",
    "classify_error",
    "classify_response",
]

_MODULES = {
    "AsyncPool": "aio",
    "Finding": "bans",
    "Lease": "pool",
    "Outcome": "outcome",
    "Pool": "pool",
    "Rule": "bans",
    "Session": "sessions",
    "classify_error": "pool",
    "classify_response": "bans",
}


def __getattr__(name: str) -> Any:
    """Imports each name on first use: importing httpx takes a quarter of a second, and the command line often needs none."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"proxypool_client.{_MODULES.get(name, 'errors')}"), name)
