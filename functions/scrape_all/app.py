"""Every 30 minutes: sends one scrape message per source that is due."""

from __future__ import annotations

from proxypool import clock
from proxypool.handlers import ScheduledHandler
from proxypool.sources import build

handler = ScheduledHandler(
    task="scrape_all",
    make=build.scheduler,
    work=lambda scheduler, run: scheduler.scrape_all(clock.now()),
)
