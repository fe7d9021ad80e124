"""The filters of PoolLowFilters, for which proxy.pool_low is published, and the number of ready proxies that fit each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from proxypool.leases.filters import CONDITIONS, Need, ready_sets
from proxypool.leases.redis.cache import Cache
from proxypool.proxies.proxy import Anonymity

MEMBERS_PER_CALL: Final = 500
FILTER_SEPARATOR: Final = ";"
CONDITION_SEPARATOR: Final = ","


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedFilter:
    """One filter; its conditions mean the same as in `POST /leases`. `name` is its text, as in events.

    `sets` are the ready sets with all candidates; each of them must meet all `needs`, too.
    """

    name: str
    sets: tuple[str, ...]
    needs: tuple[Need, ...]

    def ready(self, cache: Cache, *, enough: int) -> int:
        """The number of ready proxies that fit. If members have to be read, counting stops at `enough`."""
        keys = [f"{cache.keys.tag}:{name}" for name in self.sets]
        if not self.needs:
            return sum(int(cache.command("ZCARD", key)) for key in keys)
        found = 0
        for member in (member for key in keys for member in _members(cache, key)):
            found += all(need.fits(member) for need in self.needs)
            if found >= enough:
                break
        return found


def parse_pool_low_filters(text: str) -> tuple[WatchedFilter, ...]:
    """The filters of a setting, e.g. `country=us,https=true;kind=residential`. Raises ValueError with the reason."""
    return tuple(_parse_filter(part.strip()) for part in text.split(FILTER_SEPARATOR) if part.strip())


def _parse_filter(text: str) -> WatchedFilter:
    values: dict[str, Any] = {}
    conditions: list[Need] = []
    for condition in text.split(CONDITION_SEPARATOR):
        name, _, value = (part.strip() for part in condition.partition("="))
        row = CONDITIONS.get(name)
        if row is None:
            raise ValueError(f"{name!r} is not a filter; known are {', '.join(CONDITIONS)}")
        if name in values:
            raise ValueError(f"duplicate {name} in {text!r}; filters are separated by {FILTER_SEPARATOR!r}")
        if not value:
            raise ValueError(f"{name} has no value in {text!r}")
        try:
            values[name] = row.parse(value)
        except ValueError as error:
            raise ValueError(f"{name} {error}") from error
        if row.key:
            conditions += row.needs(values[name])
    sets = ready_sets(values.get("protocol"), values.get("country"), values.get("anonymity", Anonymity.TRANSPARENT))
    return WatchedFilter(name=text, sets=tuple(sets), needs=tuple(conditions))


def _members(cache: Cache, key: str) -> Iterator[str]:
    """The members of a ready set, best first, page by page; one that moves meanwhile may appear twice or not at all."""
    start = 0
    while page := cache.command("ZRANGE", key, start, start + MEMBERS_PER_CALL - 1, "REV"):
        yield from page
        start += MEMBERS_PER_CALL
