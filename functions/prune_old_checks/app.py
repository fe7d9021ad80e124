"""Daily: deletes old checks of proxies that have many."""

from __future__ import annotations

from proxypool import clock
from proxypool.checks import build
from proxypool.tasks.handlers import ScheduledHandler

handler = ScheduledHandler(
    task="prune_old_checks",
    make=build.build_pruner,
    work=lambda pruner, run: pruner.prune_old_checks(now=clock.now(), seconds_left=run.seconds_left),
)
