"""The environment variables of a function with given settings."""

from __future__ import annotations

from proxypool.config.overrides import serialize
from proxypool.config.settings import ENVIRONMENT_FIELDS, OVERRIDES, SETTING_SPECS, Settings


def environment(settings: Settings) -> dict[str, str]:
    """The variables that the template sets for these settings."""
    changed = {
        name: getattr(settings, name) for name, row in SETTING_SPECS.items() if getattr(settings, name) != row.default
    }
    return {name.upper(): getattr(settings, name) for name in ENVIRONMENT_FIELDS} | {OVERRIDES: serialize(changed)}
