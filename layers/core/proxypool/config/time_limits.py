"""Time limits of the functions and what follows from them, at two paces: `make configuration` writes them into template.yaml."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

VISIBILITY_FACTOR: Final = 6  # AWS asks for a visibility timeout of at least 6 x the function's time limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """One column of the template's mapping. Silences are multiples of 60 s, over twice their schedule (CloudWatch: at most a day)."""

    scrape_time_limit_seconds: int = 60
    validate_time_limit_seconds: int = 120
    fetch_time_limit_seconds: int = 120
    task_time_limit_seconds: int = 300  # of the scheduled functions
    validate_batch: int = 200  # checks wait for the network: a batch waits once
    validate_window_seconds: int = 2
    fetch_batch: int = 64
    fetch_window_seconds: int = 1
    scrape_silence_seconds: int = 7_200
    sweep_silence_seconds: int = 3_600
    expire_silence_seconds: int = 600

    def rows(self) -> dict[str, int]:
        """The values by their names in the mapping; each queue's visibility timeout follows from its function's time limit."""
        found = {name: getattr(self, name) for name in self.__slots__}
        for stage in ("scrape", "validate", "fetch"):
            found[f"{stage}_visibility_seconds"] = VISIBILITY_FACTOR * found[f"{stage}_time_limit_seconds"]
        return {"".join(part.capitalize() for part in name.split("_")): value for name, value in found.items()}


NORMAL: Final = Pace()
PACES: Final = {
    "normal": NORMAL,
    # Small batches, at once; silence is noticed as soon as the default schedules allow.
    "test": Pace(
        validate_window_seconds=1,
        fetch_batch=10,
        scrape_silence_seconds=3_660,
        sweep_silence_seconds=1_860,
        expire_silence_seconds=180,
    ),
}
