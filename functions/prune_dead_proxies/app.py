"""Daily: removes proxies that have been dead for long."""

from __future__ import annotations

from functools import cache
from typing import Any

from proxypool import clock, tasks
from proxypool.checks.prune import Pruner
from proxypool.settings import settings

TASK = "prune_dead_proxies"


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """How many were removed."""
    this, left = pruner(), context.get_remaining_time_in_millis
    ttl = this.settings.result_ttl_seconds
    with tasks.run(TASK, run_id=context.aws_request_id, state=this.state, result_ttl_seconds=ttl) as run:
        run.counts.update(this.prune_dead_proxies(now=clock.now(), seconds_left=lambda: left() / 1000))
    return run.counts


@cache
def pruner() -> Pruner:
    """The one of this process."""
    return Pruner.from_settings(settings())
