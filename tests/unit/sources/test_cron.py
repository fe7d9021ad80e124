"""Schedules of sources."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from proxypool.sources import cron
from proxypool.sources.cron import MAX_LOOK_BACK, parse_schedule
from proxypool.sources.record import Source
from proxypool.sources.schedule import is_due, is_newly_stale

NOW = datetime(2026, 11, 30, 6, 30, tzinfo=UTC)  # a Monday


@pytest.mark.parametrize(
    ("schedule", "minutes_ago", "due"),
    [
        ("", 29, True),  # the default: every 30 minutes, with slack for the scrape's own duration
        ("", 20, False),
        ("rate(2 hours)", 60, False),
        ("rate(1 day)", 1_440, True),
        ("cron(0,30 * * * ? *)", 29, True),  # 6:30 is in between
        ("cron(0 * * * *)", 29, False),  # 6:00 was before
        ("cron(0 * * * *)", 31, True),
        ("cron(*/15 6-8 * * 1)", 5, True),
        ("cron(30 6 * * 0)", 60, False),  # Sundays
        ("cron(30 6 * * MON-FRI)", 5, True),
        ("cron(30 6 ? * 2 *)", 5, True),  # six fields: EventBridge's numbers, 2 is Monday
        ("cron(30 6 ? * 1 *)", 5, False),
        ("cron(30 6 ? NOV MON 2026)", 5, True),
        ("cron(0 3 1 1 *)", 60 * 24 * 40, True),  # before the start of the search
    ],
)
def test_a_source_is_due_by_its_schedule(schedule: str, minutes_ago: int, due: bool) -> None:
    """The seeds' cron_schedule and default_schedule()."""
    assert parse_schedule(schedule)(NOW - timedelta(minutes=minutes_ago), NOW) is due


@pytest.mark.parametrize(
    "text",
    [
        "cron(* *)",
        "rate(0 days)",
        "cron(60 * * * *)",
        "cron(a * * * *)",
        "x",
        "cron(5-1 * * * *)",
        "cron(٣ * * * *)",
        "cron(0 0 ? * 0 *)",
        "cron(0 0 ? * 8 *)",
    ],
)
def test_an_invalid_schedule_is_rejected(text: str) -> None:
    """At registration, not at the first scrape."""
    with pytest.raises(ValueError):
        parse_schedule(text)


FIELDS = st.one_of(st.just("*"), st.integers(0, 6).map(str), st.just("1-4"), st.just("*/5"), st.just("0,3,6"))
CRONS = st.tuples(
    FIELDS, FIELDS, st.sampled_from(["*", "1", "28-31", "29"]), st.sampled_from(["*", "2", "JAN,FEB"]), FIELDS
)


def due_by_the_minute(fields: tuple[str, ...], last: datetime, now: datetime) -> bool:
    """Reference implementation: a minute in (last, now] matches all fields."""
    ranges = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
    named = [part.replace("JAN,FEB", "1,2") for part in fields]
    minutes, hours, days, months, weekdays = (
        cron._values(part, *bounds) for part, bounds in zip(named, ranges, strict=True)
    )
    minute = now.replace(second=0, microsecond=0)
    while minute > last:
        if (minute.minute in minutes and minute.hour in hours and minute.day in days and minute.month in months
                and minute.isoweekday() % 7 in {day % 7 for day in weekdays}):  # fmt: skip
            return True
        minute -= timedelta(minutes=1)
    return False


@settings(deadline=None, derandomize=True)
@given(
    fields=CRONS,
    now=st.timedeltas(timedelta(0), timedelta(days=75)).map(lambda past: datetime(2023, 12, 25, tzinfo=UTC) + past),
    ago=st.timedeltas(timedelta(0), timedelta(days=4)),
)
@example(("0", "3", "29", "2", "*"), datetime(2024, 2, 29, 3, 0, tzinfo=UTC), timedelta(minutes=1))
@example(("0", "3", "29", "2", "*"), datetime(2024, 3, 1, 0, 0, tzinfo=UTC), timedelta(days=1))
def test_the_arithmetic_agrees_with_a_search_by_the_minute(
    fields: tuple[str, ...], now: datetime, ago: timedelta
) -> None:
    """B5: the same results as the reference, without its 1,440 steps per day; 29 February 2024 is in the range."""
    assert parse_schedule(f"cron({' '.join(fields)})")(now - ago, now) is due_by_the_minute(fields, now - ago, now)


@pytest.mark.parametrize(
    ("now", "due"),
    [
        (datetime(2028, 2, 29, 3, 0, tzinfo=UTC), True),
        (datetime(2028, 2, 29, 2, 59, tzinfo=UTC), False),
        (datetime(2028, 3, 1, 0, 0, tzinfo=UTC), True),
        (datetime(2027, 3, 1, 3, 0, tzinfo=UTC), False),  # no leap year
    ],
)
def test_a_schedule_of_29_february_fires_in_leap_years(now: datetime, due: bool) -> None:
    assert parse_schedule("cron(0 3 29 2 ?)")(now - timedelta(days=2), now) is due


def test_a_source_last_scraped_31_days_ago_is_always_due() -> None:
    rare = parse_schedule("cron(0 3 1 1 ? 2199)")

    assert rare(NOW - MAX_LOOK_BACK, NOW)
    assert not rare(NOW - MAX_LOOK_BACK + timedelta(seconds=1), NOW)


def test_a_rare_schedule_is_searched_by_day_not_by_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted, not timed: one subtraction of a timedelta per day."""
    steps: list[object] = []

    def counting(**parts: float) -> timedelta:
        steps.append(parts)
        return timedelta(**parts)

    is_due = parse_schedule("cron(0 3 1 1 ?)")
    monkeypatch.setattr(cron, "timedelta", counting)

    assert not is_due(NOW - timedelta(days=30), NOW)
    assert len(steps) == 31


def test_a_source_is_not_scraped_during_a_requested_pause() -> None:
    """Input 29: the next run is not earlier than Retry-After."""
    source = Source(source_id="a", url="https://a.example/", created_at=NOW, not_before_at=NOW + timedelta(minutes=1))

    assert not is_due(source, NOW)
    assert is_due(source, NOW + timedelta(minutes=1))


def test_staleness_is_reported_once_until_the_next_success() -> None:
    """source.stale, once per staleness."""
    created_at = NOW - timedelta(hours=30)
    notified = Source(source_id="a", created_at=created_at, stale_notified_at=NOW - timedelta(hours=5))
    recovered = Source(
        source_id="a",
        created_at=created_at,
        stale_notified_at=created_at,
        last_success_at=created_at + timedelta(hours=1),
    )

    assert is_newly_stale(Source(source_id="a", created_at=created_at), NOW, hours=24)
    assert not is_newly_stale(notified, NOW, hours=24)
    assert is_newly_stale(recovered, NOW, hours=24)
    assert not is_newly_stale(recovered, NOW, hours=48)
