"""Freeze: when most of the pool fails at once, the cause is assumed on our side and failures have no effect.

The freeze ends when a later sweep looks healthy. The rules are pure; `Freezer` stores the counts per sweep and the freeze
marker in the state table. Checks are recorded in any case.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from proxypool import clock
from proxypool.aws.events import Event, publish
from proxypool.aws.state import FROZEN, StateTable
from proxypool.checks.check import Check, Verdict
from proxypool.config.settings import Settings
from proxypool.proxies.proxy import Status
from proxypool.proxies.record import ProxyRecord
from proxypool.telemetry import Metric, count, log

SWEEP_TTL_SECONDS: Final = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureCount:
    """Active proxies with a conclusive regular check, and those of them that failed through their own fault."""

    checked: int
    failed: int

    @property
    def percent(self) -> float:
        """The share that failed, 0–100."""
        return 100 * self.failed / self.checked if self.checked else 0.0


def count_failures(results: Iterable[tuple[ProxyRecord, Check]]) -> FailureCount:
    """Counts (record before, check). Quick re-checks are excluded: they would count the same failure twice."""
    counted = [
        removes_from_ready(record, check)
        for record, check in results
        if record.status is Status.ACTIVE
        and not record.check.failures_in_row
        and check.verdict is not Verdict.INCONCLUSIVE
    ]
    return FailureCount(checked=len(counted), failed=sum(counted))


def removes_from_ready(record: ProxyRecord, check: Check) -> bool:
    """True if this check takes an active proxy out of the ready sets; such checks are written at the end of the batch."""
    if record.status is not Status.ACTIVE:
        return False
    return check.verdict is Verdict.FAILED or (check.tampered and not record.check.tampered)


@dataclass(frozen=True, slots=True)
class Freezer:
    """Starts and ends the freeze of one deployment, by the failures of a batch and of its sweeps."""

    state: StateTable
    settings: Settings

    def update(self, results: Iterable[tuple[str, ProxyRecord, Check]], now: datetime) -> bool:
        """Counts a batch's (sweep id, record before, check); True if its failures must have no effect."""
        results = list(results)
        by_sweep: dict[str, list[tuple[ProxyRecord, Check]]] = {}
        for sweep_id, record, check in results:
            by_sweep.setdefault(sweep_id, []).append((record, check))
        batch = count_failures((record, check) for _, record, check in results)
        totals = {
            sweep_id: self._add(sweep_id, count_failures(checks)) for sweep_id, checks in by_sweep.items() if sweep_id
        }
        freeze: dict[str, Any] | None = self.state.get(FROZEN)
        for sweep_id, total in [("", batch), *totals.items()]:
            if self._is_above_freeze_threshold(total):
                if freeze is None:
                    self._freeze(sweep_id or next(iter(totals), ""), total, now)
                return True
        if freeze is not None and any(
            self._is_below_thaw_threshold(total) for sweep_id, total in totals.items() if sweep_id != freeze["sweep_id"]
        ):
            self.thaw()
            return False
        return freeze is not None

    def thaw(self) -> bool:
        """Ends the freeze, after a healthy sweep or by the operator; False if there was none."""
        was_frozen = self.state.get(FROZEN) is not None
        self.state.delete(FROZEN)
        if was_frozen:
            log.info("scores thawed")
        return was_frozen

    def _add(self, sweep_id: str, batch: FailureCount) -> FailureCount:
        """Adds a batch's counts to its sweep's; returns the sweep's totals."""
        if not batch.checked:
            return batch
        checked, failed = self.state.tally(
            f"sweep:{sweep_id}", asked=batch.checked, failed=batch.failed, ttl_seconds=SWEEP_TTL_SECONDS
        )
        return FailureCount(checked=checked, failed=failed)

    def _is_above_freeze_threshold(self, total: FailureCount) -> bool:
        return total.checked >= self.settings.freeze_min_asked and total.percent >= self.settings.freeze_percent

    def _is_below_thaw_threshold(self, total: FailureCount) -> bool:
        return total.checked >= self.settings.freeze_min_asked and total.percent < self.settings.thaw_percent

    def _freeze(self, sweep_id: str, total: FailureCount, now: datetime) -> None:
        detail = {"checked": total.checked, "failed": total.failed, "at": clock.iso(now)}
        if self.state.put_if_absent(FROZEN, {"sweep_id": sweep_id, **detail}):
            count(Metric.SCORES_FROZEN)
            log.error("scores frozen", checked=total.checked, failed=total.failed)
            publish(self.settings.need("event_bus"), Event.SCORES_FROZEN, detail)
