"""Every 30 minutes: sends one scrape message per source that is due."""

from __future__ import annotations

from proxypool import clock
from proxypool.sources import build
from proxypool.tasks.handlers import ScheduledHandler

handler = ScheduledHandler(
    task="scrape_all",
    make=build.scheduler,
    work=lambda scheduler, run: scheduler.scrape_all(clock.now()),
)
