"""How many proxies there are, by status: counted in the index of what is due, and kept for those who ask how the pool is.

A count reads the whole index, so the larger the table, the rarer it is: a fixed cost a month, whatever the size.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

from proxypool import clock
from proxypool.proxies.proxy import Status
from proxypool.proxies.record import due_shards
from proxypool.proxies.table import ProxyTable
from proxypool.state import SIZES, State

COUNTED: Final = (Status.UNCHECKED, Status.ACTIVE, Status.DEAD)  # a retired one stands in no index
AWAITED: Final = (Status.UNCHECKED, Status.ACTIVE)  # whose check being late says that the pool falls behind
OVERDUE: Final = timedelta(
    minutes=30
)  # two sweeps by the template's schedule: one asks for the proxy, its check may take until the next
LEAST_SECONDS: Final = 5  # a small pool is counted at each run
PROXIES_PER_SECOND: Final = 200  # 10,000 proxies: every 50 seconds
MOST_SECONDS: Final = 900


def refresh(table: ProxyTable, state: State, *, now: datetime) -> dict[str, Any]:
    """The sizes in the state table, counted anew where they are too old: {at, by_status, overdue}.

    A proxy is overdue when its check has been due for half an hour: between two sweeps some are always due.
    """
    kept: dict[str, Any] | None = state.get(SIZES)
    if kept and not is_old(kept, now):
        return kept
    sizes = {
        "at": clock.iso(now),
        "by_status": {status.value: _count(table, status) for status in COUNTED},
        "overdue": sum(_count(table, status, before=now - OVERDUE) for status in AWAITED),
    }
    state.put(SIZES, sizes)
    return sizes


def is_old(sizes: dict[str, Any], now: datetime) -> bool:
    """Whether these sizes are to be counted anew: after 5 seconds up to 1,000 proxies, after 15 minutes from 180,000."""
    wait = sum(sizes["by_status"].values()) / PROXIES_PER_SECOND
    age = (now - datetime.fromisoformat(sizes["at"])).total_seconds()
    return bool(age >= min(MOST_SECONDS, max(LEAST_SECONDS, wait)))


def _count(table: ProxyTable, status: Status, *, before: datetime | None = None) -> int:
    return sum(table.count_due(shard, before=before) for shard in due_shards(status))
