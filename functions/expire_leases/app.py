"""expire_leases: every minute, frees what is overdue and brings journal, settings and gauges between Redis and DynamoDB."""

from __future__ import annotations

import time
from functools import cache
from typing import Any

from proxypool import clock, tasks
from proxypool.leases.build import bridge_of
from proxypool.leases.expire import Bridge
from proxypool.proxies import census
from proxypool.settings import settings
from proxypool.state import State
from proxypool.telemetry import log

RESERVE_SECONDS = 30  # of the function's time, for what follows the long steps


@cache
def bridge() -> Bridge:
    """The bridge of this process."""
    return bridge_of(settings())


def handler(event: dict[str, Any], context: Any) -> dict[str, int]:
    """One run, tried once more after a while if it failed; returns its counts."""
    until = time.monotonic() + context.get_remaining_time_in_millis() / 1000 - RESERVE_SECONDS
    state = State(settings().need("state_table"))
    keep = settings().result_ttl_seconds
    with tasks.run("expire_leases", run_id=context.aws_request_id, state=state, result_ttl_seconds=keep) as run:
        try:
            run.counts |= bridge().run(context.aws_request_id, until=until)
        except Exception as error:
            log.warning("expire_leases failed", error=type(error).__name__, retrying=True, attempt=1)
            time.sleep(settings().expire_retry_seconds)
            run.counts |= bridge().run(context.aws_request_id, until=until)
        census.refresh_sizes(bridge().proxies, state, now=clock.now())
    return run.counts
