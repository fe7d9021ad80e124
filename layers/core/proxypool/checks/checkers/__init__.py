"""The checkers, in stage order: each asks one question. A new one is one file, one line here, one test.

Packages may add their own by the entry-point group `proxypool.checkers`: each names a `Stage`, and its `order` its place.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from typing import Final

from proxypool.checks.checkers.exit import exit_address
from proxypool.checks.checkers.headers import headers
from proxypool.checks.checkers.http import http
from proxypool.checks.checkers.https import https
from proxypool.checks.checkers.integrity import integrity, integrity_https
from proxypool.checks.checkers.reachable import reachable
from proxypool.checks.checkers.targets import targets
from proxypool.checks.context import Probe

GROUP: Final = "proxypool.checkers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A checker, its place in the order, and what its no means: a needed one ends the check, another takes something away.

    `seconds` is its own limit of time (None: the batch's). One that is `full` is left out of most re-checks of a proxy that
    has been steady.
    """

    name: str
    order: int
    ask: Callable[[Probe], Awaitable[None]]
    needed: bool = True
    full: bool = False
    seconds: float | None = None
    waits: bool = True  # False: it only thinks, or has a limit of its own


BUILT_IN: Final = (
    Stage(name="reachable", order=10, ask=reachable, waits=False),
    Stage(name="http", order=20, ask=http),
    Stage(name="anonymity", order=30, ask=headers, waits=False),
    Stage(name="exit", order=40, ask=exit_address, waits=False),
    Stage(name="https", order=50, ask=https, needed=False, full=True),
    Stage(name="integrity", order=60, ask=integrity, full=True),
    Stage(name="integrity_https", order=61, ask=integrity_https, needed=False, full=True),
    Stage(name="targets", order=70, ask=targets, needed=False, full=True),
)


@cache
def stages() -> tuple[Stage, ...]:
    """All stages in order, those of installed packages among ours."""
    added = [point.load() for point in entry_points(group=GROUP)]
    return tuple(sorted((*BUILT_IN, *added), key=lambda stage: stage.order))
