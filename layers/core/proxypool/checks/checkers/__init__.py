"""The checkers, in stage order: each asks one question. A new one is one file, one line here, one test."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from proxypool.checks.checkers.http import http
from proxypool.checks.checkers.https import https
from proxypool.checks.checkers.reachable import reachable
from proxypool.checks.context import Probe


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A checker and what its no means: a needed one ends the check, the other takes a capability away."""

    name: str
    ask: Callable[[Probe], Awaitable[None]]
    needed: bool = True


STAGES: tuple[Stage, ...] = (
    Stage(name="reachable", ask=reachable),
    Stage(name="http", ask=http),
    Stage(name="https", ask=https, needed=False),
)
