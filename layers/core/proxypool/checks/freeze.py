"""When a whole pool seems to fail at once, it is we who fail: the effects of failures freeze until a later sweep looks better.

The rules are pure; `Freezer` keeps the count of each sweep and the mark in the state table. Checks are recorded all the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from proxypool import clock
from proxypool.checks.check import Check, Verdict
from proxypool.events import Event, publish
from proxypool.proxies.proxy import Status
from proxypool.proxies.record import ProxyRecord
from proxypool.settings import Settings
from proxypool.state import FROZEN, State
from proxypool.telemetry import Metric, count, log

SWEEP_TTL_SECONDS: Final = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Active proxies that were asked for the first time since they last passed, and those that failed by their own blame."""

    asked: int
    failed: int

    @property
    def percent(self) -> float:
        """The share that failed, 0–100."""
        return 100 * self.failed / self.asked if self.asked else 0.0


def tally(results: Iterable[tuple[ProxyRecord, Check]]) -> Tally:
    """Counts results. Quick re-checks do not count: they are made of failures, and would tell their share twice."""
    counted = [
        is_held(record, check)
        for record, check in results
        if record.status is Status.ACTIVE
        and not record.check.failures_in_row
        and check.verdict is not Verdict.INCONCLUSIVE
    ]
    return Tally(asked=len(counted), failed=sum(counted))


def is_held(record: ProxyRecord, check: Check) -> bool:
    """Whether this result takes an active proxy out of the ready sets: it waits until the whole batch is known."""
    if record.status is not Status.ACTIVE:
        return False
    return check.verdict is Verdict.FAILED or (check.tampered and not record.check.tampered)


@dataclass(frozen=True, slots=True)
class Freezer:
    """Decides for one deployment, by a batch's own share and by its sweep's."""

    state: State
    settings: Settings

    def settle(self, results: Iterable[tuple[str, ProxyRecord, Check]], now: datetime) -> bool:
        """Counts a batch's results (sweep id, record as before, check); whether its failures have no effect."""
        known = list(results)
        by_sweep: dict[str, list[tuple[ProxyRecord, Check]]] = {}
        for sweep_id, record, check in known:
            by_sweep.setdefault(sweep_id, []).append((record, check))
        batch = tally((record, check) for _, record, check in known)
        totals = {sweep_id: self._add(sweep_id, tally(found)) for sweep_id, found in by_sweep.items() if sweep_id}
        mark: dict[str, Any] | None = self.state.get(FROZEN)
        for sweep_id, total in [("", batch), *totals.items()]:
            if self._is_bad(total):
                if mark is None:
                    self._freeze(sweep_id or next(iter(totals), ""), total, now)
                return True
        if mark is not None and any(
            self._is_good(total) for sweep_id, total in totals.items() if sweep_id != mark["sweep_id"]
        ):
            self.thaw()
            return False
        return mark is not None

    def thaw(self) -> bool:
        """Ends the freeze, by hand or since a sweep looked well; False where there was none."""
        was = self.state.get(FROZEN) is not None
        self.state.delete(FROZEN)
        if was:
            log.info("scores thawed")
        return was

    def _add(self, sweep_id: str, found: Tally) -> Tally:
        if not found.asked:
            return found
        asked, failed = self.state.tally(
            f"sweep:{sweep_id}", asked=found.asked, failed=found.failed, ttl_seconds=SWEEP_TTL_SECONDS
        )
        return Tally(asked=asked, failed=failed)

    def _is_bad(self, total: Tally) -> bool:
        return total.asked >= self.settings.freeze_min_asked and total.percent >= self.settings.freeze_percent

    def _is_good(self, total: Tally) -> bool:
        return total.asked >= self.settings.freeze_min_asked and total.percent < self.settings.thaw_percent

    def _freeze(self, sweep_id: str, total: Tally, now: datetime) -> None:
        detail = {"asked": total.asked, "failed": total.failed, "at": clock.iso(now)}
        if self.state.put_if_absent(FROZEN, {"sweep_id": sweep_id, **detail}):
            count(Metric.SCORES_FROZEN)
            log.error("scores frozen", asked=total.asked, failed=total.failed)
            publish(self.settings.need("event_bus"), Event.SCORES_FROZEN, detail)
