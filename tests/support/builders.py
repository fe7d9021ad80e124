"""Builders of values with default parts; a test specifies only those that it is about."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from proxypool.proxies.proxy import Protocol, Proxy
from proxypool.proxies.record import ProxyRecord

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def a_proxy(number: int = 1, **parts: Any) -> Proxy:
    """A proxy in a documentation network; each number is a different proxy."""
    values: dict[str, Any] = {"protocol": Protocol.HTTP, "host": f"198.51.100.{number}", "port": 8080}
    return Proxy(**(values | parts))


def a_record(number: int = 1, **parts: Any) -> ProxyRecord:
    """An unchecked record of `a_proxy(number)`."""
    values: dict[str, Any] = {"proxy": a_proxy(number), "first_seen_at": NOW, "last_seen_at": NOW, "version": 1}
    return ProxyRecord(**(values | parts))
