"""The checkers: one stage each, run in order. A new checker is one file, one line here and one test.

Installed packages add their own through the entry-point group `proxypool.checkers`: each entry point names a `Stage`, and
its `order` sets its position.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from typing import Final

from proxypool.checks.probe.checkers.exit import check_exit
from proxypool.checks.probe.checkers.headers import check_anonymity
from proxypool.checks.probe.checkers.http import check_http
from proxypool.checks.probe.checkers.https import check_https
from proxypool.checks.probe.checkers.integrity import check_integrity, check_integrity_https
from proxypool.checks.probe.checkers.reachable import check_reachable
from proxypool.checks.probe.checkers.targets import check_targets
from proxypool.checks.probe.context import Probe

ENTRY_POINT_GROUP: Final = "proxypool.checkers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A checker and its place in the pipeline.

    `run` raises StageFailed, TransportError or TimeoutError on failure: that ends the check if the stage is `required`.
    `timeout_seconds` is the stage's own time limit (None: the context's). `full_only` stages are skipped in most re-checks
    of a stable proxy.
    """

    name: str
    order: int
    run: Callable[[Probe], Awaitable[None]]
    required: bool = True
    full_only: bool = False
    timeout_seconds: float | None = None
    uses_timeout: bool = True  # False: the stage does no I/O or has a time limit of its own


BUILT_IN_STAGES: Final = (
    Stage(name="reachable", order=10, run=check_reachable, uses_timeout=False),
    Stage(name="http", order=20, run=check_http),
    Stage(name="anonymity", order=30, run=check_anonymity, uses_timeout=False),
    Stage(name="exit", order=40, run=check_exit, uses_timeout=False),
    Stage(name="https", order=50, run=check_https, required=False, full_only=True),
    Stage(name="integrity", order=60, run=check_integrity, full_only=True),
    Stage(name="integrity_https", order=61, run=check_integrity_https, required=False, full_only=True),
    Stage(name="targets", order=70, run=check_targets, required=False, full_only=True),
)


@cache
def stages() -> tuple[Stage, ...]:
    """All stages in order, built-in and from installed packages."""
    installed = [point.load() for point in entry_points(group=ENTRY_POINT_GROUP)]
    return tuple(sorted((*BUILT_IN_STAGES, *installed), key=lambda stage: stage.order))
