"""A batch of checks under way: whose claims are open, what waits for the end, what came of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from proxypool.checks.check import Check
from proxypool.checks.freeze import is_held
from proxypool.proxies.record import ProxyRecord


@dataclass(slots=True)
class Outcome:
    """What a batch did: the counts, and the proxies whose messages must come again."""

    counts: Counter[str] = field(default_factory=Counter)
    unfinished: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Batch:
    """One batch under way: whose claims are open, under which sweep each was asked, whose results wait for the end."""

    open_claims: dict[str, ProxyRecord]
    sweeps: dict[str, str]
    outcome: Outcome
    results: list[tuple[str, ProxyRecord, Check]] = field(default_factory=list)
    held: list[Check] = field(default_factory=list)
    crossed: bool = False  # whether a proxy became active, or ceased to be

    def take(self, page: list[Check]) -> list[Check]:
        """Notes results; returns those that may be written at once."""
        self.results += [(self.sweeps[one.proxy_id], self.open_claims[one.proxy_id], one) for one in page]
        held = [one for one in page if is_held(self.open_claims[one.proxy_id], one)]
        self.held += held
        return [one for one in page if one not in held]
