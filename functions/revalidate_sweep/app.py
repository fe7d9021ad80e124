"""Every 15 minutes: enqueues the checks that are due."""

from __future__ import annotations

from proxypool import clock
from proxypool.checks import build
from proxypool.tasks.handlers import ScheduledHandler

handler = ScheduledHandler(
    task="revalidate_sweep",
    make=build.build_sweep,
    work=lambda sweep, run: sweep.sweep(now=clock.now(), run_id=run.run_id, seconds_left=run.seconds_left),
)
