"""Builds the service of the admin API from the settings."""

from __future__ import annotations

from proxypool.aws.state import StateTable
from proxypool.config.settings import Settings
from proxypool.manage.service import Manager
from proxypool.proxies.table import ProxyTable
from proxypool.sources.build import build_source_table


def build_manager(settings: Settings) -> Manager:
    """Builds the service behind the admin routes."""
    return Manager(
        settings=settings,
        sources=build_source_table(settings),
        proxies=ProxyTable(settings.need("proxies_table")),
        state=StateTable(settings.need("state_table")),
    )
