"""Every minute: expires overdue leases and synchronizes journal, settings and gauges between Redis and DynamoDB."""

from __future__ import annotations

import time
from typing import Any

from proxypool import clock
from proxypool.aws.state import StateTable
from proxypool.config.settings import settings
from proxypool.leases.build import build_bridge
from proxypool.leases.expire import Bridge
from proxypool.proxies import census
from proxypool.tasks.handlers import Invocation, ScheduledHandler
from proxypool.telemetry import log

RESERVE_SECONDS = 30.0  # of the invocation, for the steps after the bridge


def work(bridge: Bridge, run: Invocation) -> dict[str, Any]:
    """Runs the bridge, with one retry after a delay, then the census. The counts are stored even if the census fails."""
    until = time.monotonic() + run.seconds_left()
    try:
        run.counts.update(bridge.run(run.run_id, until=until))
    except Exception as error:
        log.warning("expire_leases failed", error=type(error).__name__, retrying=True, attempt=1)
        time.sleep(settings().expire_retry_seconds)
        run.counts.update(bridge.run(run.run_id, until=until))
    census.refresh_sizes(bridge.proxies, StateTable(settings().need("state_table")), now=clock.now())
    return run.counts


handler = ScheduledHandler(task="expire_leases", make=build_bridge, work=work, reserve_seconds=RESERVE_SECONDS)
