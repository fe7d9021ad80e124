"""Creates the objects of the lease area from the settings, for the three functions and the tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxypool.config.settings import Settings, report_ignored
from proxypool.leases.pool import Limits, Pool
from proxypool.leases.redis.cache import Cache
from proxypool.leases.redis.keys import Keys
from proxypool.leases.sessions.store import Sessions

if TYPE_CHECKING:
    from proxypool.leases.expire import Bridge
    from proxypool.leases.index.pool_low_filters import WatchedFilter


def build_cache(settings: Settings) -> Cache:
    """The pool's Redis, not yet connected."""
    return Cache(settings.need("redis_url"), Keys(settings.pool), user=settings.cache_user, name=settings.cache_name)


def build_pool(settings: Settings, cache: Cache) -> Pool:
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


def build_sessions(settings: Settings) -> Sessions:
    """The sessions, on separate connections, since their keys are in other slots than the pool's."""
    return Sessions(build_cache(settings), settings.session_idle_seconds, settings.session_life_seconds)


def pool_low_filters(settings: Settings) -> tuple[WatchedFilter, ...]:
    """The filters of proxy.pool_low. Raises ValueError with the reason where they cannot be read."""
    from proxypool.leases.index.pool_low_filters import CONDITION_SEPARATOR, FILTER_SEPARATOR, parse_pool_low_filters

    return parse_pool_low_filters(FILTER_SEPARATOR.join(settings.pool_low_filters).replace(":", CONDITION_SEPARATOR))


def build_bridge(settings: Settings) -> Bridge:
    """The bridge to DynamoDB. Its modules are imported here, since the lease function starts without a vendor's library.

    Filters of proxy.pool_low that cannot be read are ignored, and reported.
    """
    from proxypool.aws.state import StateTable
    from proxypool.leases.expire import Bridge
    from proxypool.leases.index.ready import Index
    from proxypool.leases.ledger.table import Ledger
    from proxypool.proxies.table import ProxyTable

    cache = build_cache(settings)
    try:
        filters = pool_low_filters(settings)
    except ValueError as error:
        filters = ()
        report_ignored([f"pool_low_filters: {error}"])
    return Bridge(
        cache=cache,
        pool_low_filters=filters,
        low_mark=settings.pool_low_mark,
        index=Index(cache, settings.max_age_seconds),
        ledger=Ledger(settings.need("leases_table"), settings.ledger_ttl_days),
        proxies=ProxyTable(settings.need("proxies_table")),
        state=StateTable(settings.need("state_table")),
        strict=settings.cache_loss == "strict",
        max_lease_seconds=settings.max_lease_seconds,
    )
