"""Every 30 minutes: sends one scrape message per source that is due."""

from __future__ import annotations

from functools import cache
from typing import Any

from proxypool import clock, tasks
from proxypool.settings import settings
from proxypool.sources.schedule import Scheduler
from proxypool.sources.table import SourceTable
from proxypool.state import State


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """The run's counts."""
    this = scheduler()
    with tasks.run(
        "scrape_all",
        run_id=context.aws_request_id,
        state=this.state,
        result_ttl_seconds=this.settings.result_ttl_seconds,
    ) as run:
        run.counts.update(this.scrape_all(clock.now()))
    return run.counts


@cache
def scheduler() -> Scheduler:
    """The one of this process."""
    known = settings()
    return Scheduler(SourceTable(known.need("sources_table")), State(known.need("state_table")), known)
