"""Time limits of the functions and derived values, for two paces; `make configuration` writes them into template.yaml."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

VISIBILITY_FACTOR: Final = 6  # AWS recommends a visibility timeout of at least 6 x the function's time limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """One column of the template's mapping. Silences (alarm periods) are multiples of 60 s and over twice the schedule; CloudWatch allows at most a day."""

    scrape_time_limit_seconds: int = 60
    validate_time_limit_seconds: int = 120
    fetch_time_limit_seconds: int = 120
    task_time_limit_seconds: int = 300  # of the scheduled functions
    validate_batch: int = 200  # checks of a batch wait for the network concurrently
    validate_window_seconds: int = 2
    fetch_batch: int = 64
    fetch_window_seconds: int = 1
    scrape_silence_seconds: int = 7_200
    sweep_silence_seconds: int = 3_600
    expire_silence_seconds: int = 600

    def rows(self) -> dict[str, int]:
        """The values by mapping key, with the visibility timeout of each queue derived from the time limit of its function."""
        values = {name: getattr(self, name) for name in self.__slots__}
        for stage in ("scrape", "validate", "fetch"):
            values[f"{stage}_visibility_seconds"] = VISIBILITY_FACTOR * values[f"{stage}_time_limit_seconds"]
        return {"".join(part.capitalize() for part in name.split("_")): value for name, value in values.items()}


NORMAL: Final = Pace()
PACES: Final = {
    "normal": NORMAL,
    # Small batches without delay; silence is detected as early as the default schedules allow.
    "test": Pace(
        validate_window_seconds=1,
        fetch_batch=10,
        scrape_silence_seconds=3_660,
        sweep_silence_seconds=1_860,
        expire_silence_seconds=180,
    ),
}
