"""How a source is: from what its lists held to a state, and how long a barren one rests. Pure.

A list that looks wrong is not taken: what the last good one brought stays. Failure to read a list changes no state, and
nothing here disables a source: only a person does.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final

JUDGED_AFTER: Final = 3  # good lists that say what is usual: the rule holds from the fourth on
MIN_ROWS: Final = 100  # of fewer rows a share says nothing
FAR_FEWER: Final = 0.25  # of what is usual
MOSTLY_NEW: Final = 0.8  # of the list's rows
ONE_NETWORK: Final = 0.3  # of the list's rows
SUSPICIONS_TO_QUARANTINE: Final = 3
USUAL_WEIGHT: Final = 0.3  # the weight of the newest list
FIRST_REST: Final = timedelta(hours=1)
LONGEST_REST: Final = timedelta(hours=24)


class Health(StrEnum):
    """The states."""

    HEALTHY = "healthy"
    SUSPECT = "suspect"  # its last list looked wrong and was not taken
    QUARANTINED = "quarantined"  # three in a row: somebody should look, its lists are still read and judged
    DISABLED = "disabled"  # by a person


class Suspicion(StrEnum):
    """What looks wrong about a list."""

    FAR_FEWER_ROWS = "far_fewer_rows"
    MOSTLY_NEW = "mostly_new"
    ONE_NETWORK = "one_network"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One list in numbers: good rows, those not listed before (None: unknown), those in its largest /24 (or /48)."""

    valid: int
    new: int | None
    largest_network: int


def health(*, enabled: bool, suspicions: int) -> Health:
    """The state of a source whose last `suspicions` lists in a row looked wrong."""
    if not enabled:
        return Health.DISABLED
    if suspicions >= SUSPICIONS_TO_QUARANTINE:
        return Health.QUARANTINED
    return Health.SUSPECT if suspicions else Health.HEALTHY


def suspicion(sample: Sample, *, usual: int, successes: int) -> Suspicion | None:
    """What looks wrong about a list of a source that had `successes` good ones with `usual` rows; None: nothing does."""
    if successes < JUDGED_AFTER or max(usual, sample.valid) < MIN_ROWS:
        return None
    if sample.valid < usual * FAR_FEWER:
        return Suspicion.FAR_FEWER_ROWS
    if sample.new is not None and sample.new >= sample.valid * MOSTLY_NEW:
        return Suspicion.MOSTLY_NEW
    if sample.largest_network >= sample.valid * ONE_NETWORK:
        return Suspicion.ONE_NETWORK
    return None


def usual_rows(usual: int, successes: int, valid: int) -> int:
    """What is usual once a good list of `valid` rows was added."""
    return valid if not successes else round(usual + USUAL_WEIGHT * (valid - usual))


def rest(barren: int) -> timedelta:
    """The least time between two scrapes of a source whose last `barren` lists brought nothing that works; doubling."""
    return min(FIRST_REST * 2 ** min(barren - 1, 10), LONGEST_REST) if barren else timedelta(0)
