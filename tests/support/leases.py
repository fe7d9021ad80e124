"""Builders for tests of leases: ready proxies, an open pool on a real Valkey, HTTP events."""

from __future__ import annotations

import json
import uuid
from datetime import timedelta
from typing import Any
from urllib.parse import quote

from proxypool import clock
from proxypool.config.settings import Settings
from proxypool.http import router, web
from proxypool.leases import operations
from proxypool.leases.build import build_cache, build_pool
from proxypool.leases.index.ready import Index
from proxypool.leases.pool import Pool
from proxypool.leases.redis.cache import Cache
from proxypool.leases.sessions.store import Sessions
from proxypool.proxies.proxy import Anonymity, Protocol, Proxy, Status
from proxypool.proxies.record import CheckFacts, ProxyRecord


def a_record(number: int = 1, **changes: Any) -> ProxyRecord:
    """A proxy that just passed a check; `age_seconds` and fields of CheckFacts change the check, others the row or the proxy."""
    now = clock.now()
    checked = now - timedelta(seconds=changes.pop("age_seconds", 0))
    check: dict[str, Any] = {
        "passed": 5.0, "count": 5, "latency_ms": 50.0, "exit_ip": f"127.1.0.{number}", "country": "de",
        "anonymity": Anonymity.ELITE, "https": True,
    }  # fmt: skip
    check |= {name: changes.pop(name) for name in list(changes) if name in CheckFacts.__slots__}
    row: dict[str, Any] = {"status": Status.ACTIVE, "version": 1, "last_checked_at": checked} | changes
    proxy = _proxy(number, **{name: row.pop(name) for name in ("protocol", "username") if name in row})
    return ProxyRecord(proxy=proxy, first_seen_at=now, last_seen_at=now, check=CheckFacts(**check), **row)


def proxy_id(number: int) -> str:
    """The id of `a_record(number)`."""
    return _proxy(number).id


def _proxy(number: int, protocol: Protocol = Protocol.HTTP, username: str = "user") -> Proxy:
    return Proxy(protocol, f"10.0.0.{number}", 8080, username, "secret")


def a_pool(url: str, *records: ProxyRecord, is_open: bool = True, **changes: Any) -> Pool:
    """A new pool (with a unique name) with these proxies ready; `changes` are fields of Settings."""
    settings = Settings(redis_url=url, pool=f"t{uuid.uuid4().hex[:12]}", **changes)
    cache = build_cache(settings)
    if is_open:
        cache.command("HSET", cache.keys.settings, "epoch", "1")
    Index(cache, settings.max_age_seconds).upsert(records)
    return build_pool(settings, cache)


def keys_of(cache: Cache) -> list[str]:
    """Every key of the cache's pool."""
    return list(cache.command("KEYS", f"{cache.keys.tag}:*"))


def an_event(route: str, body: object = None, *, lease_id: str = "", by: Any = None, **headers: str) -> dict[str, Any]:
    """An HTTP API event (payload 2.0); `lease_id` is the {id} of the path, `by` the authorizer (None: the local stack)."""
    method, _, path = route.partition(" ")
    return {
        "routeKey": "$default",
        "rawPath": path.replace("{id}", quote(lease_id, safe="")),
        "headers": {
            "content-type": "application/json",
            **{name.replace("_", "-"): text for name, text in headers.items()},
        },
        "requestContext": {"stage": "$default", "http": {"method": method}, "authorizer": by},
        "body": body if isinstance(body, str) else None if body is None else json.dumps(body),
    }


def respond(event: dict[str, Any], pool: Pool, settings: Settings, sessions: Sessions | None = None) -> web.Response:
    """The response of the lease routes for this pool; errors other than ApiError are raised."""

    def store() -> Sessions:
        return sessions or Sessions(pool.cache, settings.session_idle_seconds, settings.session_life_seconds)

    def fail(error: Exception, _: web.Event) -> None:
        raise error

    return router.answer(event, lambda: operations.router(settings, lambda: pool, store), on_error=fail)
