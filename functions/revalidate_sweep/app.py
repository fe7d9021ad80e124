"""Every quarter of an hour: asks for what is due to be checked."""

from __future__ import annotations

from functools import cache
from typing import Any

from proxypool import clock, state, tasks
from proxypool.checks.sweep import Sweep
from proxypool.proxies.table import ProxyTable
from proxypool.settings import settings
from proxypool.state import State

TASK = "revalidate_sweep"


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """The counts of the sweep; nothing is sent while the operator has paused the pool."""
    this, run_id = sweep(), context.aws_request_id
    ttl = this.settings.result_ttl_seconds
    with tasks.run(TASK, run_id=run_id, state=this.state, result_ttl_seconds=ttl) as run:
        if state.is_paused(this.state):
            run.counts.update(count=0, paused=True)
        else:
            left = context.get_remaining_time_in_millis
            run.counts.update(this.sweep(now=clock.now(), run_id=run_id, seconds_left=lambda: left() / 1000))
    return run.counts


@cache
def sweep() -> Sweep:
    """The one of this process."""
    known = settings()
    return Sweep(ProxyTable(known.need("proxies_table")), State(known.need("state_table")), known)
