"""How a scrape went, told to everybody: the source's row, the metrics, the events on the bus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from proxypool import clock
from proxypool.aws.events import Event, publish
from proxypool.config.settings import Settings
from proxypool.errors import SourceError
from proxypool.sources.formats import ParseResult
from proxypool.sources.health import Health, Suspicion, health, updated_baseline
from proxypool.sources.record import Source
from proxypool.sources.scrape.caps import Held
from proxypool.sources.scrape.digest import Mark
from proxypool.sources.scrape.loaders import Body
from proxypool.sources.table import SourceTable
from proxypool.telemetry import Metric, count

NO_ROWS: Final = "no_rows"
TREND: Final = 12  # lists whose good rows are remembered
_READ: Final[dict[str, Any]] = {"consecutive_failures": 0, "last_error": "", "not_before_at": None}
"""What a source's row says once it could be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scraped:
    """What one run did. `skipped` says why nothing was done; `next_offset` is where the next message goes on, 0: the end."""

    new: int = 0
    updated: int = 0
    rows: int = 0
    valid: int = 0
    rejected: Mapping[str, int] = field(default_factory=dict)
    held_back: Mapping[str, int] = field(default_factory=dict)
    next_offset: int = 0
    skipped: str = ""

    def counts(self) -> dict[str, Any]:
        """The numbers for the log line and the run's result."""
        out: dict[str, Any] = {"count_new": self.new, "count_updated": self.updated, "count_rows": self.rows}
        out |= {"count_valid": self.valid, "count_rejected": sum(self.rejected.values())}
        out |= {"held_back": dict(self.held_back)} if self.held_back else {}
        return out | ({"skipped": self.skipped} if self.skipped else {})


def unchanged(sources: SourceTable, source: Source, now: datetime) -> Scraped:
    """A list that is as it was when it was last stored: a success, and nothing to do."""
    sources.finish(source, last_scraped_at=now, last_success_at=now, anomaly_streak=0, suspicion="", **_READ)
    count(Metric.SOURCES_SCRAPED)
    return Scraped(skipped="not_modified")


def refused(
    sources: SourceTable, settings: Settings, source: Source, parsed: ParseResult, suspicion: Suspicion, now: datetime
) -> Scraped:
    """A list that looks wrong: counted and told, not taken. What the last good one brought stays."""
    rejected = dict(parsed.rejected)
    scraped = Scraped(
        rows=len(parsed.proxies) + sum(rejected.values()), valid=len(parsed.proxies), rejected=rejected,
        skipped=f"suspect: {suspicion}",
    )  # fmt: skip
    before, streak = source.health, source.anomaly_streak + 1
    changes = _list_facts(source, scraped) | {"anomaly_streak": streak, "suspicion": suspicion.value}
    changes |= {"last_scraped_at": now, "empty_streak": source.empty_streak + 1, "continues": "", **_READ}
    if not scraped.valid:
        changes["last_error"] = NO_ROWS
    took = sources.finish(source, **changes)
    count(Metric.SOURCES_SCRAPED)
    count(Metric.SOURCES_SUSPECT)
    count(Metric.LINES_REJECTED, sum(rejected.values()))
    after = health(enabled=True, anomaly_streak=streak)
    if took and after is not before:
        _tell_suspect(settings, source, scraped, suspicion, after, now)
    return scraped


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A list, or a part of one, that was stored; `following` names the next part, "" after the last."""

    source: Source
    body: Body
    scraped: Scraped
    marks: Mapping[Mark, int]
    is_first: bool
    following: str


def stored(sources: SourceTable, settings: Settings, outcome: Outcome, now: datetime) -> None:
    """The row, the metrics and the event of such a list. What an edit overtook meanwhile is not written into the row."""
    source, scraped = outcome.source, outcome.scraped
    _count_stored(scraped, outcome.is_first)
    if scraped.new:  # before the run counts as done: once it does, nobody would tell any more
        detail = {"source_id": source.source_id, "count": scraped.new, "at": clock.iso(now)}
        publish(settings.need("event_bus"), Event.NEW_BATCH, detail)
    held_back = Counter(scraped.held_back) + Counter({} if outcome.is_first else source.held_back)
    changes: dict[str, Any] = {"last_scraped_at": now, "read_at": now, "continues": outcome.following, **_READ}
    changes |= {"new": scraped.new + (0 if outcome.is_first else source.new), "held_back": dict(held_back)}
    changes |= {"new_on": _day(now), "new_today": new_today(source, now) + scraped.new}
    if outcome.is_first:
        changes |= _list_facts(source, scraped) | _good_list(source, scraped)
    if scraped.valid:
        changes["last_success_at"] = now
    else:
        changes |= {"last_error": NO_ROWS, "consecutive_failures": source.consecutive_failures + 1}
    if not outcome.following:
        changes |= _end_of_list(outcome, is_whole=bool(scraped.valid) and not held_back[Held.PER_DAY])
    sources.finish(source, **changes)


def failed(
    sources: SourceTable,
    settings: Settings,
    source_id: str,
    error: SourceError,
    now: datetime,
    *,
    attempts: int,
    is_last: bool,
) -> None:
    """A source that could not be read. Its state and its proxies stay; after the last try the world is told."""
    changes: dict[str, Any] = {"last_error": error.reason}
    if error.retry_after_seconds is not None:
        changes["not_before_at"] = now + timedelta(seconds=error.retry_after_seconds)
    if is_last:
        source = sources.get(source_id)
        failures = (source.consecutive_failures if source else 0) + 1
        changes |= {"consecutive_failures": failures, "last_scraped_at": now}
        count(Metric.SOURCES_FAILED)
        detail = {"source_id": source_id, "reason": error.reason, "attempts": attempts, "at": clock.iso(now)}
        publish(settings.need("event_bus"), Event.SOURCE_FAILED, detail | {"consecutive_failures": failures})
    sources.update(source_id, **changes)


def new_today(source: Source, now: datetime) -> int:
    """How many new proxies the source has brought this day (UTC)."""
    return source.new_today if source.new_on == _day(now) else 0


def _list_facts(source: Source, scraped: Scraped) -> dict[str, Any]:
    trend = (*source.trend, scraped.valid)[-TREND:]
    return {"rows": scraped.rows, "valid": scraped.valid, "rejected": scraped.rejected, "trend": trend}


def _good_list(source: Source, scraped: Scraped) -> dict[str, Any]:
    """A list that the health rule let pass; one without rows is no success to learn from."""
    if not scraped.valid:
        return {}
    baseline_rows = updated_baseline(source.baseline_rows, source.successes, scraped.valid)
    return {"baseline_rows": baseline_rows, "successes": source.successes + 1, "anomaly_streak": 0, "suspicion": ""}


def _end_of_list(outcome: Outcome, *, is_whole: bool) -> dict[str, Any]:
    """What the row says once a list was stored to its end: its yield, and its validators if nothing waits for tomorrow."""
    marks, body, source = outcome.marks, outcome.body, outcome.source
    aged, alive = marks.get(Mark.AGED, 0), marks.get(Mark.ALIVE, 0)
    is_empty = not outcome.scraped.valid or (aged and not alive)
    return {
        "exclusive": marks.get(Mark.EXCLUSIVE, 0),
        "aged_count": aged,
        "alive": alive,
        "empty_streak": source.empty_streak + 1 if is_empty else 0,
        "etag": body.etag if is_whole else "",
        "last_modified": body.last_modified if is_whole else "",
        "body_hash": body.hash if is_whole else "",
    }


def _count_stored(scraped: Scraped, is_first: bool) -> None:
    if is_first:  # the parts of one list have the same rejected rows
        count(Metric.SOURCES_SCRAPED)
        count(Metric.LINES_REJECTED, sum(scraped.rejected.values()))
    count(Metric.PROXIES_DISCOVERED, scraped.new)
    count(Metric.PROXIES_UPDATED, scraped.updated)
    count(Metric.PROXIES_HELD_BACK, sum(scraped.held_back.values()))


def _tell_suspect(
    settings: Settings, source: Source, scraped: Scraped, suspicion: Suspicion, state: Health, now: datetime
) -> None:
    detail = {
        "source_id": source.source_id,
        "health": state.value,
        "reason": suspicion.value,
        "valid": scraped.valid,
        "usual": source.baseline_rows,
        "at": clock.iso(now),
    }
    publish(settings.need("event_bus"), Event.SOURCE_SUSPECT, detail)


def _day(now: datetime) -> str:
    return now.date().isoformat()
