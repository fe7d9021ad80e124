"""The operator's settings as fields of the pool's hash, where acquire.lua reads them. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

RATE_PATTERN: Final = r"(?:\*|[a-z0-9_.-]{1,253})=[1-9][0-9]{0,5}/[1-9][0-9]{0,4}(?:\+[0-9]{1,3})?"
RATE_FIELD_PREFIX: Final = "rate:"
_PARTS: Final = re.compile(r"(.+)=(\d+)/(\d+)(?:\+(\d+))?")
_NUMBERS: Final = {"owner_quota": 1, "exit_cap": 1, "breaker_failures": 1, "breaker_seconds": 1_000}
_NAMES: Final = {"breaker_seconds": "breaker_ms"}
OPTIONAL_FIELDS: Final = frozenset(_NAMES.get(name, name) for name in _NUMBERS)


def pool_fields(settings: Mapping[str, Any]) -> dict[str, str]:
    """The fields of the pool's hash for these settings. OPTIONAL_FIELDS and rates that are not among them are to be deleted."""
    fields = {"paused": "1" if settings.get("paused") else "0"}
    for name, factor in _NUMBERS.items():
        if settings.get(name) is not None:
            fields[_NAMES.get(name, name)] = str(int(settings[name]) * factor)
    for rate in settings.get("rates") or ():
        target, text = rate_field(rate)
        fields[RATE_FIELD_PREFIX + target] = text
    return fields


def rate_field(rate: str) -> tuple[str, str]:
    """A rate `target=uses/seconds[+burst]` as (target, "gap_ms burst"); the target `*` stands for all others.

    An exit is used for the target once per gap_ms on average, and `burst` times more at once (default 0). Raises ValueError.
    """
    found = _PARTS.fullmatch(rate)
    if found is None:
        raise ValueError(rate)
    target, uses, seconds, more = found.groups()
    return target, f"{max(1, round(int(seconds) * 1000 / int(uses)))} {1 + int(more or 0)}"
