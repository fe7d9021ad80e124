"""When sources are due."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from proxypool.sources.cron import parse_schedule
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
        ("cron(0,30 * * * ? *)", 29, True),  # 6:30 lies between
        ("cron(0 * * * *)", 29, False),  # 6:00 was before
        ("cron(0 * * * *)", 31, True),
        ("cron(*/15 6-8 * * 1)", 5, True),
        ("cron(30 6 * * 0)", 60, False),  # Sundays
        ("cron(30 6 * * MON-FRI)", 5, True),
        ("cron(30 6 ? * 2 *)", 5, True),  # six fields: EventBridge's numbers, 2 is Monday
        ("cron(30 6 ? * 1 *)", 5, False),
        ("cron(30 6 ? NOV MON 2026)", 5, True),
        ("cron(0 3 1 1 *)", 60 * 24 * 40, True),  # longer ago than it looks back
    ],
)
def test_a_source_is_due_when_its_schedule_says_so(schedule: str, minutes_ago: int, due: bool) -> None:
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
def test_a_schedule_that_cannot_be_read_is_refused(text: str) -> None:
    """At registration, not at the first scrape."""
    with pytest.raises(ValueError):
        parse_schedule(text)


def test_a_source_that_asked_for_a_pause_gets_it() -> None:
    """Input 29: the next run is not earlier than Retry-After."""
    source = Source(source_id="a", url="https://a.example/", created_at=NOW, not_before_at=NOW + timedelta(minutes=1))

    assert not is_due(source, NOW)
    assert is_due(source, NOW + timedelta(minutes=1))


def test_staleness_is_told_once_until_the_source_brings_something() -> None:
    """source.stale, once per staleness."""
    made = NOW - timedelta(hours=30)
    told = Source(source_id="a", created_at=made, stale_told_at=NOW - timedelta(hours=5))
    recovered = Source(source_id="a", created_at=made, stale_told_at=made, last_success_at=made + timedelta(hours=1))

    assert is_newly_stale(Source(source_id="a", created_at=made), NOW, hours=24)
    assert not is_newly_stale(told, NOW, hours=24)
    assert is_newly_stale(recovered, NOW, hours=24)
    assert not is_newly_stale(recovered, NOW, hours=48)
