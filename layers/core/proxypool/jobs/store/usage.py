"""Bytes received by source, per day and month, in the state table; written once per batch. Providers bill by the gigabyte."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime

from proxypool.aws.state import StateTable
from proxypool.proxies.table import ProxyTable

TTL_SECONDS = {"%Y-%m-%d": 32 * 86_400, "%Y-%m": 400 * 86_400}  # by the format of the period


def save(spent: Mapping[str, int], proxies: ProxyTable, state: StateTable, *, now: datetime) -> None:
    """Adds the bytes received through each proxy to its sources; a proxy of several sources counts for each."""
    by_source: Counter[str] = Counter()
    for proxy_id, record in proxies.get_many(list(spent)).items():
        for source_id in record.sources:
            by_source[source_id] += spent[proxy_id]
    for source_id, number in by_source.items():
        for period, ttl_seconds in TTL_SECONDS.items():
            state.add(_name(source_id, period, now), number, ttl_seconds=ttl_seconds)


def read(source_ids: Iterable[str], state: StateTable, *, now: datetime) -> dict[str, tuple[int, int]]:
    """The bytes of each source today and in this month (UTC)."""
    names = {source_id: [_name(source_id, period, now) for period in TTL_SECONDS] for source_id in source_ids}
    counters = state.numbers([name for pair in names.values() for name in pair])
    return {
        source_id: (int(counters.get(today, 0)), int(counters.get(month, 0)))
        for source_id, (today, month) in names.items()
    }


def _name(source_id: str, period: str, now: datetime) -> str:
    return f"bytes:{now:{period}}:{source_id}"
