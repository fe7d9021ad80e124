"""Bytes by source: providers bill by the gigabyte. Counted per day in the state table, added once per batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime

from proxypool.proxies.table import ProxyTable
from proxypool.state import State

KEPT_SECONDS = 32 * 86_400


def usage_name(source_id: str, day: datetime) -> str:
    """Where a source's bytes of a day stand in the state table."""
    return f"bytes:{day:%Y-%m-%d}:{source_id}"


def save(spent: Mapping[str, int], proxies: ProxyTable, state: State, *, now: datetime) -> None:
    """Adds the bytes that came through each proxy to its sources (a proxy of several lists counts for each)."""
    by_source: Counter[str] = Counter()
    for proxy_id, record in proxies.get_many(list(spent)).items():
        for source_id in record.sources:
            by_source[source_id] += spent[proxy_id]
    for source_id, number in by_source.items():
        state.add(usage_name(source_id, now), number, ttl_seconds=KEPT_SECONDS)
