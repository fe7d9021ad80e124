"""Daily: removes proxies that have been dead for a long time."""

from __future__ import annotations

from proxypool import clock
from proxypool.checks import build
from proxypool.tasks.handlers import ScheduledHandler

handler = ScheduledHandler(
    task="prune_dead_proxies",
    make=build.build_pruner,
    work=lambda pruner, run: pruner.prune_dead_proxies(now=clock.now(), seconds_left=run.seconds_left),
)
