"""The list formats: a registry of pure functions from bytes to proxies. A format is one file here and one line below.

Third parties add theirs by the entry-point group `proxypool.formats`: a name and a function of `Format`'s shape.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import entry_points
from typing import Protocol as Shape

from proxypool.proxies.proxy import Protocol, Proxy

ENTRY_POINTS = "proxypool.formats"
DEFAULT_SCHEDULE = "rate(30 minutes)"
AUTO = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """What a list holds: each proxy once, in the list's order, and how many rows were rejected, by reason.

    Addresses are canonical but not vetted: a list may name 127.0.0.1, and the scrape refuses it.
    """

    proxies: tuple[Proxy, ...] = ()
    rejected: Mapping[str, int] = field(default_factory=Counter)


class Format(Shape):
    """A format reads bytes and never raises for what they hold."""

    def __call__(self, raw: bytes, *, default_protocol: Protocol) -> Parsed:
        """The proxies in a list; `default_protocol` is for rows that name none."""


@cache
def formats() -> dict[str, Format]:
    """All formats by name, third parties' included; ours cannot be replaced."""
    from proxypool.sources.formats import json, lines  # they import Parsed from here

    theirs = {point.name: point.load() for point in entry_points(group=ENTRY_POINTS)}
    return theirs | {"lines": lines.parse, "json": json.parse, AUTO: _parse_auto}


def parse(name: str, raw: bytes, *, default_protocol: Protocol) -> Parsed:
    """The proxies in a list of that format; raises KeyError where no format has the name."""
    return formats()[name](raw, default_protocol=default_protocol)


def _parse_auto(raw: bytes, *, default_protocol: Protocol) -> Parsed:
    """JSON where it is JSON, else lines. `[2001:db8::1]:80` begins as JSON does, so that only the attempt tells."""
    if raw.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"[", b"{"):
        parsed = formats()["json"](raw, default_protocol=default_protocol)
        if parsed.proxies:
            return parsed
    return formats()["lines"](raw, default_protocol=default_protocol)
