"""Number of proxies by status, counted in the index `due` and cached in the state table for statistics.

Counting reads the whole index, so the interval between counts grows with the table: the monthly cost is independent of
the size.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

from proxypool import clock
from proxypool.aws.state import SIZES, StateTable
from proxypool.proxies.proxy import Status
from proxypool.proxies.record import due_shards
from proxypool.proxies.table import ProxyTable

COUNTED_STATUSES: Final = (Status.UNCHECKED, Status.ACTIVE, Status.DEAD)  # retired proxies are not in the index
OVERDUE_STATUSES: Final = (Status.UNCHECKED, Status.ACTIVE)  # late checks of these mean that the pool falls behind
OVERDUE_AFTER: Final = timedelta(minutes=30)  # two scheduled sweeps: one requests the check, the next bounds its end
MIN_INTERVAL_SECONDS: Final = 5  # a small pool is counted at each run
PROXIES_PER_SECOND: Final = 200  # 10,000 proxies: every 50 seconds
MAX_INTERVAL_SECONDS: Final = 900


def refresh_sizes(table: ProxyTable, state: StateTable, *, now: datetime) -> dict[str, Any]:
    """The cached sizes, counted again if they are stale: {at, by_status, overdue}.

    A proxy is overdue if its check has been due for half an hour: between two sweeps some are always due.
    """
    cached: dict[str, Any] | None = state.get(SIZES)
    if cached and not is_stale(cached, now):
        return cached
    sizes = {
        "at": clock.iso(now),
        "by_status": {status.value: _count(table, status) for status in COUNTED_STATUSES},
        "overdue": sum(_count(table, status, before=now - OVERDUE_AFTER) for status in OVERDUE_STATUSES),
    }
    state.put(SIZES, sizes)
    return sizes


def is_stale(sizes: dict[str, Any], now: datetime) -> bool:
    """True if the sizes must be counted again: after 5 seconds up to 1,000 proxies, after 15 minutes from 180,000."""
    interval_seconds = sum(sizes["by_status"].values()) / PROXIES_PER_SECOND
    age_seconds = (now - datetime.fromisoformat(sizes["at"])).total_seconds()
    return bool(age_seconds >= min(MAX_INTERVAL_SECONDS, max(MIN_INTERVAL_SECONDS, interval_seconds)))


def _count(table: ProxyTable, status: Status, *, before: datetime | None = None) -> int:
    return sum(table.count_due(shard, before=before) for shard in due_shards(status))
