"""scrape_all: sends a message per due source and an event per source that became stale."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from proxypool import clock
from proxypool.aws import queues
from proxypool.aws.events import Event, publish
from proxypool.aws.state import StateTable, is_paused
from proxypool.config.settings import Settings
from proxypool.sources.cron import MAX_SLACK, parse_schedule
from proxypool.sources.health import backoff
from proxypool.sources.record import Source
from proxypool.sources.table import SourceTable
from proxypool.telemetry import Metric, count


@dataclass(frozen=True, slots=True)
class Scheduler:
    """Enqueues scrapes of due sources."""

    sources: SourceTable
    state: StateTable
    settings: Settings

    def scrape_all(self, now: datetime) -> Mapping[str, int]:
        """Sends a message per due source and publishes `source.stale` once per stale source; does nothing while the pool is paused."""
        if is_paused(self.state):
            return {"count_enqueued": 0, "paused": 1}
        enabled = [source for source in self.sources.list() if source.enabled]
        due = [source for source in enabled if is_due(source, now)]
        for source in due:
            enqueue(source.source_id, self.settings)
        stale = [source for source in enabled if is_newly_stale(source, now, hours=self.settings.source_stale_hours)]
        for source in stale:
            self._publish_stale(source, now)
        count(Metric.SOURCES_ENQUEUED, len(due))
        return {"count_sources": len(enabled), "count_enqueued": len(due), "count_stale": len(stale)}

    def _publish_stale(self, source: Source, now: datetime) -> None:
        detail = {
            "source_id": source.source_id,
            "hours": self.settings.source_stale_hours,
            "last_success_at": clock.iso(source.last_success_at) if source.last_success_at else None,
            "at": clock.iso(now),
        }
        count(Metric.SOURCES_STALE)
        if publish(self.settings.need("event_bus"), Event.SOURCE_STALE, detail):
            self.sources.update(source.source_id, stale_notified_at=now)


def enqueue(source_id: str, settings: Settings) -> None:
    """Enqueues a scrape of a source (`scrape_all` and POST /sources/{id}/scrape)."""
    message = queues.ScrapeMessage(source_id=source_id)
    queues.send(settings.need("scrape_queue_url"), [message], group=source_id)


def is_due(source: Source, now: datetime) -> bool:
    """True if the source is due by its schedule, its server did not request a pause, and its backoff after useless lists has ended."""
    if source.not_before_at is not None and now < source.not_before_at:
        return False
    if source.last_scraped_at is None:
        return True
    if now - source.last_scraped_at < backoff(source.empty_streak) - MAX_SLACK:
        return False
    return parse_schedule(source.schedule)(source.last_scraped_at, now)


def is_newly_stale(source: Source, now: datetime, *, hours: int) -> bool:
    """True if the source had no success for `hours` and no event was published since the last success."""
    since = source.last_success_at or source.created_at
    is_notified = source.stale_notified_at is not None and source.stale_notified_at >= since
    return not is_notified and now - since >= timedelta(hours=hours)
