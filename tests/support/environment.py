"""The environment variables of a function with given settings."""

from __future__ import annotations

from proxypool.config.overrides import write
from proxypool.config.settings import GIVEN, OVERRIDES, ROWS, Settings


def environment(settings: Settings) -> dict[str, str]:
    """The variables that the template sets for these settings."""
    changed = {name: getattr(settings, name) for name, row in ROWS.items() if getattr(settings, name) != row.default}
    return {name.upper(): getattr(settings, name) for name in GIVEN} | {OVERRIDES: write(changed)}
