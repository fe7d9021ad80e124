"""The objects of the validate stage, made from the settings: validate_proxy, the sweep and the two prune tasks start here."""

from __future__ import annotations

from proxypool.aws.state import StateTable
from proxypool.checks.prune import Pruner
from proxypool.checks.sweep import Sweep
from proxypool.checks.table import ChecksTable
from proxypool.checks.validate import Validator
from proxypool.config.settings import Settings
from proxypool.proxies.table import ProxyTable


def build_validator(settings: Settings) -> Validator:
    """Checks batches of proxies."""
    return Validator(_proxies(settings), _checks(settings), _state(settings), settings)


def build_sweep(settings: Settings) -> Sweep:
    """Sends what is due to the validate queue."""
    return Sweep(_proxies(settings), _state(settings), settings)


def build_pruner(settings: Settings) -> Pruner:
    """Deletes dead proxies and old checks."""
    return Pruner(_proxies(settings), _checks(settings), _state(settings), settings)


def _proxies(settings: Settings) -> ProxyTable:
    return ProxyTable(settings.need("proxies_table"))


def _checks(settings: Settings) -> ChecksTable:
    return ChecksTable(settings.need("checks_table"))


def _state(settings: Settings) -> StateTable:
    return StateTable(settings.need("state_table"))
