"""Statistics of the pool, assembled from stored values; nothing is counted here."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

from proxypool import clock
from proxypool.aws.state import GAUGES, SIZES, StateTable
from proxypool.jobs.store import usage
from proxypool.sources.record import Source
from proxypool.tasks.runs import last_name, success_name

TASKS: Final = (
    "scrape_all",
    "scrape_source",
    "revalidate_sweep",
    "validate_proxy",
    "prune_dead_proxies",
    "prune_old_checks",
    "expire_leases",
    "fetch_page",
)
SCRAPE_SUCCESS: Final = success_name("scrape_source")
VALIDATION_SUCCESS: Final = success_name("validate_proxy")


def pool_stats(state: StateTable, sources: Iterable[Source], now: datetime) -> dict[str, Any]:
    """Sizes, gauges, source health, bytes, and the last run of each task; missing values are null."""
    sources = list(sources)
    used = usage.read([source.source_id for source in sources], state, now=now)
    stored = state.get_many([SIZES, GAUGES, SCRAPE_SUCCESS, VALIDATION_SUCCESS, *map(last_name, TASKS)])
    sizes, gauges = stored.get(SIZES, {}), stored.get(GAUGES, {})
    return {
        "at": clock.iso(now),
        "proxies": sizes.get("by_status"),
        "overdue": sizes.get("overdue"),
        "sizes_at": sizes.get("at"),
        "ready": gauges.get("ready"),
        "leases_open": gauges.get("leases_open"),
        "gauges_at": gauges.get("at"),
        "last_scrape_at": stored.get(SCRAPE_SUCCESS),
        "last_validation_at": stored.get(VALIDATION_SUCCESS),
        "sources": {
            source.source_id: {
                "rows": source.rows, "valid": source.valid, "new": source.new, "health": source.health,
                "bytes_today": used[source.source_id][0], "bytes_this_month": used[source.source_id][1],
            }
            for source in sources
        },
        "tasks": {task: stored.get(last_name(task)) for task in TASKS},
    }  # fmt: skip
