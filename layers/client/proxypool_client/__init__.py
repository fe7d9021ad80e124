"""Lease proxies from a proxy pool over HTTP."""

from proxypool_client.errors import LeaseLost, NoPool, PoolEmpty, PoolError, Refused, Unreachable
from proxypool_client.pool import Lease, Pool

__all__ = ["Lease", "LeaseLost", "NoPool", "Pool", "PoolEmpty", "PoolError", "Refused", "Unreachable"]
