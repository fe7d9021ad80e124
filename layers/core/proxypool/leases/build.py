"""The leases' objects, made from the settings: what the three functions and the tests start from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxypool.errors import ConfigurationError
from proxypool.leases.cache import Cache
from proxypool.leases.keys import Keys
from proxypool.leases.pool import Limits, Pool
from proxypool.leases.sessions import Sessions
from proxypool.settings import Settings

if TYPE_CHECKING:
    from proxypool.leases.expire import Bridge


def cache_of(settings: Settings) -> Cache:
    """The pool's Redis, not yet connected."""
    return Cache(settings.need("redis_url"), Keys(settings.pool), user=settings.cache_user, name=settings.cache_name)


def pool_of(settings: Settings, cache: Cache) -> Pool:
    """The lease engine."""
    limits = Limits(
        total_seconds=settings.max_lease_total_seconds,
        ttl_seconds=settings.max_lease_seconds,
        owner_quota=settings.owner_quota,
        journal_max=settings.journal_max,
        breaker_failures=settings.breaker_failures,
        breaker_seconds=settings.breaker_seconds,
    )
    return Pool(cache, limits)


def sessions_of(settings: Settings) -> Sessions:
    """The sessions, on connections of their own: they lie in other slots than the pool."""
    return Sessions(cache_of(settings), settings.session_idle_seconds, settings.session_life_seconds)


def bridge_of(settings: Settings) -> Bridge:
    """The bridge to DynamoDB. Its imports are here: the lease function starts without any vendor's library.

    Raises ConfigurationError where the filters of proxy.pool_low cannot be read.
    """
    from proxypool.leases.expire import Bridge
    from proxypool.leases.index import Index
    from proxypool.leases.ledger import Ledger
    from proxypool.leases.watched import read_watched
    from proxypool.proxies.table import ProxyTable
    from proxypool.state import State

    cache = cache_of(settings)
    try:
        watched = read_watched(settings.pool_low_filters)
    except ValueError as error:
        raise ConfigurationError("POOL_LOW_FILTERS", str(error)) from error
    return Bridge(
        cache=cache,
        watched=watched,
        low_mark=settings.pool_low_mark,
        index=Index(cache, settings.max_age_seconds),
        ledger=Ledger(settings.need("leases_table"), settings.ledger_ttl_days),
        proxies=ProxyTable(settings.need("proxies_table")),
        state=State(settings.need("state_table")),
        strict=settings.cache_loss == "strict",
        max_lease_seconds=settings.max_lease_seconds,
    )
