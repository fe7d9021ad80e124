"""Reports the result of a scrape: row of the source, metrics, events."""

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
from proxypool.sources.scrape.caps import CapReason
from proxypool.sources.scrape.digest import Mark
from proxypool.sources.scrape.loaders import Body
from proxypool.sources.table import SourceTable
from proxypool.telemetry import Metric, count

NO_ROWS: Final = "no_rows"
TREND_LENGTH: Final = 12  # number of lists in the history of valid rows
_READ: Final[dict[str, Any]] = {"consecutive_failures": 0, "last_error": "", "not_before_at": None}
"""Attributes of a source after a successful read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrapeResult:
    """The result of one run. `skipped` is the reason if nothing was done; `next_offset` is where the next message continues, 0 at the end."""

    new: int = 0
    updated: int = 0
    rows: int = 0
    valid: int = 0
    rejected: Mapping[str, int] = field(default_factory=dict)
    held_back: Mapping[str, int] = field(default_factory=dict)
    next_offset: int = 0
    skipped: str = ""

    def counts(self) -> dict[str, Any]:
        """The counts for the log and the stored result."""
        out: dict[str, Any] = {"count_new": self.new, "count_updated": self.updated, "count_rows": self.rows}
        out |= {"count_valid": self.valid, "count_rejected": sum(self.rejected.values())}
        out |= {"held_back": dict(self.held_back)} if self.held_back else {}
        return out | ({"skipped": self.skipped} if self.skipped else {})


def report_unchanged(sources: SourceTable, source: Source, now: datetime) -> ScrapeResult:
    """Reports an unchanged list: a success without changes."""
    sources.finish(source, last_scraped_at=now, last_success_at=now, anomaly_streak=0, suspicion="", **_READ)
    count(Metric.SOURCES_SCRAPED)
    return ScrapeResult(skipped="not_modified")


def report_refused(
    sources: SourceTable, settings: Settings, source: Source, parsed: ParseResult, suspicion: Suspicion, now: datetime
) -> ScrapeResult:
    """Reports a suspicious list, which is not stored; the proxies of the last good list remain."""
    rejected = dict(parsed.rejected)
    scraped = ScrapeResult(
        rows=len(parsed.proxies) + sum(rejected.values()), valid=len(parsed.proxies), rejected=rejected,
        skipped=f"suspect: {suspicion}",
    )  # fmt: skip
    before, streak = source.health, source.anomaly_streak + 1
    changes = _list_facts(source, scraped) | {"anomaly_streak": streak, "suspicion": suspicion.value}
    changes |= {"last_scraped_at": now, "empty_streak": source.empty_streak + 1, "continues": "", **_READ}
    if not scraped.valid:
        changes["last_error"] = NO_ROWS
    is_written = sources.finish(source, **changes)
    count(Metric.SOURCES_SCRAPED)
    count(Metric.SOURCES_SUSPECT)
    count(Metric.LINES_REJECTED, sum(rejected.values()))
    after = health(enabled=True, anomaly_streak=streak)
    if is_written and after is not before:
        _publish_suspect(settings, source, scraped, suspicion, after, now)
    return scraped


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPart:
    """A list, or a part of one, that was stored; `following` is the name of the next part, "" after the last."""

    source: Source
    body: Body
    scraped: ScrapeResult
    marks: Mapping[Mark, int]
    is_first: bool
    following: str


def report_stored(sources: SourceTable, settings: Settings, part: StoredPart, now: datetime) -> None:
    """Reports a stored part. The row is not updated if the source was edited meanwhile."""
    source, scraped = part.source, part.scraped
    _count_stored(scraped, part.is_first)
    if scraped.new:  # before `finish`: a retry after it would not publish the event
        detail = {"source_id": source.source_id, "count": scraped.new, "at": clock.iso(now)}
        publish(settings.need("event_bus"), Event.NEW_BATCH, detail)
    held_back = Counter(scraped.held_back) + Counter({} if part.is_first else source.held_back)
    changes: dict[str, Any] = {"last_scraped_at": now, "read_at": now, "continues": part.following, **_READ}
    changes |= {"new": scraped.new + (0 if part.is_first else source.new), "held_back": dict(held_back)}
    changes |= {"new_on": _day(now), "new_today": new_today(source, now) + scraped.new}
    if part.is_first:
        changes |= _list_facts(source, scraped) | _good_list(source, scraped)
    if scraped.valid:
        changes["last_success_at"] = now
    else:
        changes |= {"last_error": NO_ROWS, "consecutive_failures": source.consecutive_failures + 1}
    if not part.following:
        changes |= _end_of_list(part, is_whole=bool(scraped.valid) and not held_back[CapReason.PER_DAY])
    sources.finish(source, **changes)


def report_failed(
    sources: SourceTable,
    settings: Settings,
    source_id: str,
    error: SourceError,
    now: datetime,
    *,
    attempts: int,
    is_last: bool,
) -> None:
    """Reports a source that could not be read. State and proxies are unchanged; publishes source.failed after the last attempt."""
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
    """The number of new proxies of the source today (UTC)."""
    return source.new_today if source.new_on == _day(now) else 0


def _list_facts(source: Source, scraped: ScrapeResult) -> dict[str, Any]:
    trend = (*source.trend, scraped.valid)[-TREND_LENGTH:]
    return {"rows": scraped.rows, "valid": scraped.valid, "rejected": scraped.rejected, "trend": trend}


def _good_list(source: Source, scraped: ScrapeResult) -> dict[str, Any]:
    """Attributes after a list that is not suspicious; a list without valid rows does not change the baseline."""
    if not scraped.valid:
        return {}
    baseline_rows = updated_baseline(source.baseline_rows, source.successes, scraped.valid)
    return {"baseline_rows": baseline_rows, "successes": source.successes + 1, "anomaly_streak": 0, "suspicion": ""}


def _end_of_list(part: StoredPart, *, is_whole: bool) -> dict[str, Any]:
    """Attributes after the last part of a list: its yield, and its validators unless rows were left for the next day."""
    marks, body, source = part.marks, part.body, part.source
    aged, alive = marks.get(Mark.AGED, 0), marks.get(Mark.ALIVE, 0)
    is_empty = not part.scraped.valid or (aged and not alive)
    return {
        "exclusive": marks.get(Mark.EXCLUSIVE, 0),
        "aged_count": aged,
        "alive": alive,
        "empty_streak": source.empty_streak + 1 if is_empty else 0,
        "etag": body.etag if is_whole else "",
        "last_modified": body.last_modified if is_whole else "",
        "body_hash": body.hash if is_whole else "",
    }


def _count_stored(scraped: ScrapeResult, is_first: bool) -> None:
    if is_first:  # the parts of one list have the same rejected rows
        count(Metric.SOURCES_SCRAPED)
        count(Metric.LINES_REJECTED, sum(scraped.rejected.values()))
    count(Metric.PROXIES_DISCOVERED, scraped.new)
    count(Metric.PROXIES_UPDATED, scraped.updated)
    count(Metric.PROXIES_CAPPED, sum(scraped.held_back.values()))


def _publish_suspect(
    settings: Settings, source: Source, scraped: ScrapeResult, suspicion: Suspicion, state: Health, now: datetime
) -> None:
    detail = {
        "source_id": source.source_id,
        "health": state.value,
        "reason": suspicion.value,
        "valid": scraped.valid,
        "baseline": source.baseline_rows,
        "at": clock.iso(now),
    }
    publish(settings.need("event_bus"), Event.SOURCE_SUSPECT, detail)


def _day(now: datetime) -> str:
    return now.date().isoformat()
