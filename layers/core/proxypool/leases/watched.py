"""The filters that proxy.pool_low watches besides the whole pool, and how many ready proxies fit them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from proxypool.leases.cache import Cache
from proxypool.leases.keys import ANY_COUNTRY, ready_set
from proxypool.proxies.proxy import Anonymity, Kind, Protocol

MEMBERS_PER_CALL: Final = 500
BETWEEN_FILTERS: Final = ";"
BETWEEN_CONDITIONS: Final = ","
HEAD_CHARS: Final = 27  # of a ready member, before its exit: https, kind, latency, id

_COUNTRY: Final = re.compile("[a-z]{2}")

Fits = Callable[[str], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """One filter; its conditions mean what they mean to `POST /leases`. `name` is its text, as events tell it.

    `sets` are the ready sets that hold all that may fit; `tests` are what a member of them has to pass besides.
    """

    name: str
    sets: tuple[str, ...]
    tests: tuple[Fits, ...]

    def ready(self, cache: Cache, *, enough: int) -> int:
        """How many ready proxies fit; where members are read one by one, no further than to `enough` of them."""
        keys = [f"{cache.keys.tag}:{name}" for name in self.sets]
        if not self.tests:
            return sum(int(cache.command("ZCARD", key)) for key in keys)
        found = 0
        for member in (member for key in keys for member in _members(cache, key)):
            found += all(fits(member) for fits in self.tests)
            if found >= enough:
                break
        return found


def read_watched(text: str) -> tuple[Watched, ...]:
    """The filters of a setting, e.g. `country=us,https=true;kind=residential`. Raises ValueError with what is wrong."""
    return tuple(_watched(part.strip()) for part in text.split(BETWEEN_FILTERS) if part.strip())


def _watched(text: str) -> Watched:
    asked: dict[str, str] = {}
    for condition in text.split(BETWEEN_CONDITIONS):
        name, _, value = (part.strip() for part in condition.partition("="))
        if name not in NAMES:
            raise ValueError(f"{name!r} is no filter; known are {', '.join(NAMES)}")
        if name in asked:
            raise ValueError(f"{name} stands twice in {text!r}; between filters stands {BETWEEN_FILTERS!r}")
        if not value:
            raise ValueError(f"{name} has no value in {text!r}")
        asked[name] = value
    protocols = [Protocol(asked["protocol"])] if "protocol" in asked else list(Protocol)
    least = Anonymity(asked.get("anonymity", Anonymity.TRANSPARENT))
    country = asked.get("country", ANY_COUNTRY)
    if "country" in asked and not _COUNTRY.fullmatch(country):
        raise ValueError(f"country is two lower-case letters, not {country!r}")
    return Watched(
        name=text,
        sets=tuple(
            ready_set(protocol, country, level.rank)
            for protocol in protocols
            for level in Anonymity
            if level.rank >= least.rank
        ),
        tests=tuple(test(asked[name]) for name, test in _TESTS.items() if name in asked),
    )


def _members(cache: Cache, key: str) -> Iterator[str]:
    """A ready set's members, best first, page by page; one that moves meanwhile may be met twice or not at all."""
    start = 0
    while page := cache.command("ZRANGE", key, start, start + MEMBERS_PER_CALL - 1, "REV"):
        yield from page
        start += MEMBERS_PER_CALL


def _https(value: str) -> Fits:
    wanted = {"true": "1", "false": "0"}.get(value)
    if wanted is None:
        raise ValueError(f"https is true or false, not {value!r}")
    return lambda member: member[0] == wanted


def _kind(value: str) -> Fits:
    letter = Kind(value).value[0]
    return lambda member: member[1] == letter


def _region(value: str) -> Fits:
    return lambda member: _part(member, 1) == value


def _tag(value: str) -> Fits:
    return lambda member: f",{value}," in _part(member, 2)


def _source(value: str) -> Fits:
    return lambda member: f",{value}," in _part(member, 3)


def _part(member: str, number: int) -> str:
    return member[HEAD_CHARS:].split("|")[number]


_TESTS: Final[Mapping[str, Callable[[str], Fits]]] = {
    "https": _https,
    "kind": _kind,
    "region": _region,
    "tag": _tag,
    "source": _source,
}
NAMES: Final = ("protocol", "country", "anonymity", *_TESTS)
