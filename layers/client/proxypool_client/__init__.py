"""Lease proxies from a proxy pool over HTTP."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from proxypool_client.aio import AsyncPool
    from proxypool_client.errors import LeaseLost, NoPool, NotAllowed, PoolEmpty, PoolError, Refused, Unreachable
    from proxypool_client.pool import Lease, Pool

__all__ = [
    "AsyncPool",
    "Lease",
    "LeaseLost",
    "NoPool",
    "NotAllowed",
    "Pool",
    "PoolEmpty",
    "PoolError",
    "Refused",
    "Unreachable",
]


def __getattr__(name: str) -> Any:
    """Each name is imported when it is first used: an HTTP library costs a command line a quarter of a second."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    place = {"AsyncPool": "aio", "Lease": "pool", "Pool": "pool"}.get(name, "errors")
    return getattr(import_module(f"proxypool_client.{place}"), name)
