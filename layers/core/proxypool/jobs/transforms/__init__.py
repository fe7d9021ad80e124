"""Registry of transforms, which extract data from a page. Other packages register theirs in the entry-point group `proxypool.transforms`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import Any, Final, Protocol

from proxypool.errors import ProxyPoolError
from proxypool.jobs.fetch.page import Answer

ENTRY_POINT_GROUP: Final = "proxypool.transforms"


class TransformError(ProxyPoolError):
    """The transform cannot read the page; `reason` is one word."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(detail or reason)
        self.reason = reason


class Transform(Protocol):
    """Interface of a transform."""

    def check(self, options: Mapping[str, Any]) -> Mapping[str, str]:
        """Validates the options of a job; returns error messages by option name."""

    def apply(self, page: Answer, options: Mapping[str, Any]) -> Any:
        """Returns JSON-compatible data; raises TransformError."""


def find(name: str) -> Transform | None:
    """The transform of that name, or None."""
    return _all().get(name)


def names() -> list[str]:
    """The names of all transforms, sorted."""
    return sorted(_all())


def raw_data(page: Answer) -> Any:
    """The raw page, for a result whose transform failed."""
    from proxypool.jobs.transforms.raw import RAW

    return RAW.apply(page, {})


@cache
def _all() -> dict[str, Transform]:
    from proxypool.jobs.transforms import csv, html, json, raw

    built_in: dict[str, Transform] = {"raw": raw.RAW, "json": json.JSON, "html": html.HTML, "csv": csv.CSV}
    return built_in | {
        point.name: point.load() for point in entry_points(group=ENTRY_POINT_GROUP) if point.name not in built_in
    }
