"""State of one batch of checks: open claims, collected results, deferred results."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from proxypool.checks.check import Check
from proxypool.checks.freeze import removes_from_ready
from proxypool.proxies.record import ProxyRecord


@dataclass(slots=True)
class BatchResult:
    """Counts by verdict, and the ids of the proxies whose messages must be delivered again."""

    counts: Counter[str] = field(default_factory=Counter)
    unfinished: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Batch:
    """One batch in progress. `open_claims` and `sweep_ids` have proxy ids as keys."""

    open_claims: dict[str, ProxyRecord]
    sweep_ids: dict[str, str]
    result: BatchResult
    checks: list[tuple[str, ProxyRecord, Check]] = field(default_factory=list)  # sweep id, record before, check
    deferred: list[Check] = field(default_factory=list)
    active_set_changed: bool = False  # True once a proxy became active or stopped being active

    def add(self, page: list[Check]) -> list[Check]:
        """Collects checks; returns those that can be written at once, without the deferred ones."""
        self.checks += [(self.sweep_ids[check.proxy_id], self.open_claims[check.proxy_id], check) for check in page]
        deferred = [check for check in page if removes_from_ready(self.open_claims[check.proxy_id], check)]
        self.deferred += deferred
        return [check for check in page if check not in deferred]
