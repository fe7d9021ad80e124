"""The registry of transforms, which turn a page into data. Other packages add theirs by the entry-point group `proxypool.transforms`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import Any, Final, Protocol

from proxypool.errors import ProxyPoolError
from proxypool.jobs.fetch.page import Answer

GROUP: Final = "proxypool.transforms"


class TransformError(ProxyPoolError):
    """The page is not what the transform reads; `reason` is one word."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(detail or reason)
        self.reason = reason


class Transform(Protocol):
    """One way to read a page."""

    def check(self, options: Mapping[str, Any]) -> Mapping[str, str]:
        """What is wrong with a job's options, by name; empty if nothing is."""

    def apply(self, page: Answer, options: Mapping[str, Any]) -> Any:
        """JSON-ready data; raises TransformError."""


def find(name: str) -> Transform | None:
    """The transform of that name, None where there is none."""
    return _all().get(name)


def names() -> list[str]:
    """All transforms, by name."""
    return sorted(_all())


def as_it_is(page: Answer) -> Any:
    """The raw page, for a result whose transform failed."""
    from proxypool.jobs.transforms.raw import RAW

    return RAW.apply(page, {})


@cache
def _all() -> dict[str, Transform]:
    from proxypool.jobs.transforms import csv, html, json, raw

    found: dict[str, Transform] = {"raw": raw.RAW, "json": json.JSON, "html": html.HTML, "csv": csv.CSV}
    return found | {point.name: point.load() for point in entry_points(group=GROUP) if point.name not in found}
