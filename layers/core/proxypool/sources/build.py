"""Builds the objects of scrape_source and scrape_all from the settings."""

from __future__ import annotations

from proxypool.aws.state import StateTable
from proxypool.config.settings import Settings
from proxypool.proxies.table import ProxyTable
from proxypool.sources.schedule import Scheduler
from proxypool.sources.scrape.scraper import Scraper
from proxypool.sources.table import SourceTable


def build_scraper(settings: Settings) -> Scraper:
    """Builds the scraper."""
    return Scraper(
        sources=build_source_table(settings),
        proxies=ProxyTable(settings.need("proxies_table")),
        state=StateTable(settings.need("state_table")),
        settings=settings,
    )


def build_scheduler(settings: Settings) -> Scheduler:
    """Builds the scheduler."""
    return Scheduler(build_source_table(settings), StateTable(settings.need("state_table")), settings)


def build_source_table(settings: Settings) -> SourceTable:
    """The sources table."""
    return SourceTable(settings.need("sources_table"))
