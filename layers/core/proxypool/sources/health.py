"""How a source is: from what its lists held to a state, and how long one without working proxies backs off. Pure.

A suspicious list is not stored; the proxies of the last good list remain. A failed fetch does not change the state, and
a source is never disabled automatically.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final

JUDGED_AFTER: Final = 3  # good lists that make the baseline; the rules apply to the fourth list and later ones
MIN_ROWS: Final = 100  # shares of fewer rows are not significant
FAR_FEWER: Final = 0.25  # of the usual rows
MOSTLY_NEW: Final = 0.8  # of the list's rows
ONE_NETWORK: Final = 0.3  # of the list's rows
ANOMALIES_TO_QUARANTINE: Final = 3
NEWEST_LIST_WEIGHT: Final = 0.3  # the weight of the newest list
FIRST_BACKOFF: Final = timedelta(hours=1)
MAX_BACKOFF: Final = timedelta(hours=24)


class Health(StrEnum):
    """State of a source."""

    HEALTHY = "healthy"
    SUSPECT = "suspect"  # its last list was suspicious and was not stored
    QUARANTINED = "quarantined"  # three suspicious lists in a row: needs a person; lists are still fetched and judged
    DISABLED = "disabled"  # by the operator


class Suspicion(StrEnum):
    """The reason why a list is suspicious."""

    FAR_FEWER_ROWS = "far_fewer_rows"
    MOSTLY_NEW = "mostly_new"
    ONE_NETWORK = "one_network"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Counts of one list: valid rows, new ones among them (None: unknown), those in the largest /24 (or /48)."""

    valid: int
    new: int | None
    largest_network: int


def health(*, enabled: bool, anomaly_streak: int) -> Health:
    """The state of a source whose last `anomaly_streak` lists looked wrong."""
    if not enabled:
        return Health.DISABLED
    if anomaly_streak >= ANOMALIES_TO_QUARANTINE:
        return Health.QUARANTINED
    return Health.SUSPECT if anomaly_streak else Health.HEALTHY


def suspicion(sample: Sample, *, baseline_rows: int, successes: int) -> Suspicion | None:
    """The anomaly of a list, given `successes` earlier good lists with about `baseline_rows` rows; None if there is none."""
    if successes < JUDGED_AFTER or max(baseline_rows, sample.valid) < MIN_ROWS:
        return None
    if sample.valid < baseline_rows * FAR_FEWER:
        return Suspicion.FAR_FEWER_ROWS
    if sample.new is not None and sample.new >= sample.valid * MOSTLY_NEW:
        return Suspicion.MOSTLY_NEW
    if sample.largest_network >= sample.valid * ONE_NETWORK:
        return Suspicion.ONE_NETWORK
    return None


def updated_baseline(baseline_rows: int, successes: int, valid: int) -> int:
    """The baseline after a good list of `valid` rows."""
    return valid if not successes else round(baseline_rows + NEWEST_LIST_WEIGHT * (valid - baseline_rows))


def backoff(empty_streak: int) -> timedelta:
    """Minimum time between two scrapes after `empty_streak` consecutive lists without a working proxy: 1 h, doubling up to 24 h."""
    return min(FIRST_BACKOFF * 2 ** min(empty_streak - 1, 10), MAX_BACKOFF) if empty_streak else timedelta(0)
