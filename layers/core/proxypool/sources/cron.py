"""Schedules of sources: `cron(minute hour day month weekday [year])` or `rate(N unit)`, in UTC. Pure.

Months and weekdays may be names. With five fields, weekdays are numbered as in cron (0 and 7 are Sunday); with six fields as
in EventBridge (1 is Sunday).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

# scrape_all runs every 30 minutes and a scrape ends a little later: without slack every second scrape would be skipped.
MAX_SLACK: Final = timedelta(minutes=5)
MAX_LOOK_BACK: Final = timedelta(days=31)  # a source that was scraped earlier is due in any case
_RATE: Final = re.compile(r"rate\(([1-9][0-9]{0,3}) (minute|hour|day)s?\)")
_CRON: Final = re.compile(r"cron\(([^()]{1,200})\)")
_MONTHS: Final = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAYS: Final = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_PART: Final = re.compile(r"(?:\*|([0-9]{1,4})(?:-([0-9]{1,4}))?)(?:/([1-9][0-9]{0,3}))?")

Schedule = Callable[[datetime, datetime], bool]
"""Takes the last run and now; returns True if the next run is due."""


def parse_schedule(text: str, *, default: str = "rate(30 minutes)") -> Schedule:
    """Parses an expression (`default` if it is empty); raises ValueError with a message for the user."""
    expression = text or default
    if rate := _RATE.fullmatch(expression):
        return _rate(timedelta(**{rate[2] + "s": int(rate[1])}))
    if cron := _CRON.fullmatch(expression):
        return _cron(cron[1].split())
    raise ValueError("must be cron(minute hour day month weekday) or rate(N minutes|hours|days)")


def _rate(period: timedelta) -> Schedule:
    slack = min(period / 10, MAX_SLACK)
    return lambda last, now: now - last >= period - slack


def _cron(parts: list[str]) -> Schedule:
    if len(parts) not in (5, 6):
        raise ValueError("cron has five fields: minute hour day month weekday")
    sunday = len(parts) - 5
    minutes, hours, days = (
        _values(part, low, high) for part, low, high in zip(parts, (0, 0, 1), (59, 23, 31), strict=False)
    )
    months = _values(_replace_names(parts[3], _MONTHS, 1), 1, 12)
    weekdays = {(day - sunday) % 7 for day in _values(_replace_names(parts[4], _WEEKDAYS, sunday), sunday, 7)}
    years = _values(parts[5], 1970, 2199) if len(parts) == 6 else None

    def fires_on(day: datetime) -> bool:
        return (
            day.day in days
            and day.month in months
            and day.isoweekday() % 7 in weekdays
            and (years is None or day.year in years)
        )

    def is_due(last: datetime, now: datetime) -> bool:
        if now - last >= MAX_LOOK_BACK:
            return True
        for days_back in range((now.date() - last.date()).days + 1):
            day = now - timedelta(days=days_back)
            if fires_on(day):  # only the latest run up to `now` matters; earlier days are before it
                until = (now.hour, now.minute) if days_back == 0 else (23, 59)
                time_of_day = _latest_time(hours, minutes, until)
                if time_of_day is not None:
                    return day.replace(hour=time_of_day[0], minute=time_of_day[1], second=0, microsecond=0) > last
        return False

    return is_due


def _latest_time(hours: frozenset[int], minutes: frozenset[int], until: tuple[int, int]) -> tuple[int, int] | None:
    """The latest (hour, minute) of the schedule up to `until`; None if there is none."""
    hour, minute = until
    if hour in hours and (earlier_minutes := [value for value in minutes if value <= minute]):
        return hour, max(earlier_minutes)
    earlier_hours = [value for value in hours if value < hour]
    return (max(earlier_hours), max(minutes)) if earlier_hours else None


def _replace_names(part: str, names: tuple[str, ...], first: int) -> str:
    """The field with names replaced by numbers."""
    for number, name in enumerate(names, start=first):
        part = re.sub(rf"\b{name}\b", str(number), part, flags=re.IGNORECASE)
    return part


def _values(part: str, low: int, high: int) -> frozenset[int]:
    """The values of a field like `*`, `?`, `*/5`, `1-5` or `0,30`."""
    out: set[int] = set()
    for item in part.replace("?", "*").split(","):
        match = _PART.fullmatch(item)
        if match is None:
            raise ValueError(f"cron cannot read {part[:20]!r}")
        first = int(match[1]) if match[1] else low
        last = int(match[2]) if match[2] else first if match[1] and not match[3] else high
        if not low <= first <= last <= high:
            raise ValueError(f"cron accepts {low} to {high}, not {part[:20]!r}")
        out.update(range(first, last + 1, int(match[3] or 1)))
    return frozenset(out)
