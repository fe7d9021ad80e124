"""Every 15 minutes: sends a validate message for each proxy that is due for a check."""

from __future__ import annotations

from proxypool import clock
from proxypool.checks import build
from proxypool.tasks.handlers import ScheduledHandler

handler = ScheduledHandler(
    task="revalidate_sweep",
    make=build.sweep,
    work=lambda sweep, run: sweep.sweep(now=clock.now(), run_id=run.run_id, seconds_left=run.seconds_left),
)
