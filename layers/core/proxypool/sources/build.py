"""The objects of the scrape stage, made from the settings: scrape_source and scrape_all start here."""

from __future__ import annotations

from proxypool.aws.state import StateTable
from proxypool.config.settings import Settings
from proxypool.proxies.table import ProxyTable
from proxypool.sources.schedule import Scheduler
from proxypool.sources.scrape.scraper import Scraper
from proxypool.sources.table import SourceTable


def scraper(settings: Settings) -> Scraper:
    """Reads sources' lists and stores their proxies."""
    return Scraper(
        sources=source_table(settings),
        proxies=ProxyTable(settings.need("proxies_table")),
        state=StateTable(settings.need("state_table")),
        settings=settings,
    )


def scheduler(settings: Settings) -> Scheduler:
    """Sends what is due to the scrape queue."""
    return Scheduler(source_table(settings), StateTable(settings.need("state_table")), settings)


def source_table(settings: Settings) -> SourceTable:
    """The sources table."""
    return SourceTable(settings.need("sources_table"))
