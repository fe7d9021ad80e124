"""Every 30 minutes: enqueues a scrape of each due source."""

from __future__ import annotations

from proxypool import clock
from proxypool.sources import build
from proxypool.tasks.handlers import ScheduledHandler

handler = ScheduledHandler(
    task="scrape_all",
    make=build.build_scheduler,
    work=lambda scheduler, run: scheduler.scrape_all(clock.now()),
)
