"""scrape_source: load, fetch, parse, upsert, send what is new to validation, and write down how the source fared.

Every step is idempotent: two runs of one source at once have one effect, since only a row's first writer sees it as new.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

from botocore.exceptions import ClientError

from proxypool import aws, clock, queues
from proxypool.errors import SourceError
from proxypool.events import Event, publish
from proxypool.network.address import FORBIDDEN, Networks
from proxypool.network.fetch import Limits, fetch
from proxypool.proxies.record import ProxyRecord
from proxypool.proxies.table import ProxyTable
from proxypool.queues import ScrapeMessage, ValidateMessage
from proxypool.settings import Settings
from proxypool.sources.formats import Parsed, parse
from proxypool.sources.record import Source
from proxypool.sources.table import SourceTable
from proxypool.sources.vetting import vetted
from proxypool.state import State, is_paused
from proxypool.telemetry import Metric, count

SLICE: Final = 500  # proxies between two looks at how many were new
MAX_ROWS_PER_RUN: Final = 20_000  # what is looked up, known or new, within the function's 60 s
MAX_FILE_BYTES: Final = 100_000_000
NO_ROWS: Final = "no_rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scraped:
    """What one run did. `skipped` says why nothing was done; `next_offset` is where the next message goes on, 0: the end."""

    new: int = 0
    updated: int = 0
    rows: int = 0
    valid: int = 0
    rejected: Mapping[str, int]
    next_offset: int = 0
    skipped: str = ""

    def counts(self) -> dict[str, Any]:
        """The numbers for the log line and the run's result."""
        out = {"count_new": self.new, "count_updated": self.updated, "count_rows": self.rows}
        out |= {"count_valid": self.valid, "count_rejected": sum(self.rejected.values())}
        return out | ({"skipped": self.skipped} if self.skipped else {})


@dataclass(frozen=True, slots=True)
class _Body:
    """A list's bytes, None where it has not changed."""

    raw: bytes | None
    etag: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scraper:
    """Scrapes one source a call."""

    sources: SourceTable
    proxies: ProxyTable
    state: State
    settings: Settings
    networks: Networks = FORBIDDEN

    def scrape(self, message: ScrapeMessage, now: datetime) -> Scraped:
        """Reads the source's list, or the rest of a stored one; raises SourceError where it cannot be had.

        A list without a single good row removes nothing: the source is marked, its proxies stay.
        """
        source = self.sources.get(message.source_id)
        if source is None or not source.enabled:
            return Scraped(rejected={}, skipped="disabled" if source else "unknown")
        if is_paused(self.state):  # scrape_all asks again once the pool runs
            return Scraped(rejected={}, skipped="paused")
        body = self._load(source, message)
        if body.raw is None:
            self.sources.update(source.source_id, last_scraped_at=now, last_success_at=now, **_WELL)
            return Scraped(rejected={}, skipped="not_modified")
        parsed = vetted(
            parse(source.parser, body.raw, default_protocol=source.protocol),
            allow_loopback=self.settings.allow_loopback,
            networks=self.networks,
        )
        scraped = self._store(source, parsed, message.offset, now)
        if scraped.next_offset:
            self._continue(source, body, message, scraped.next_offset)
        self._note(source, body, message, scraped, now)
        return scraped

    def failed(self, source_id: str, error: SourceError, now: datetime, *, is_last: bool) -> None:
        """Writes a failure down; after the last try also tells the world. Proxies and enabled sources stay as they are."""
        pause = error.retry_after_seconds
        changes: dict[str, Any] = {"last_error": error.reason}
        if pause is not None:
            changes["not_before_at"] = now + timedelta(seconds=pause)
        if is_last:
            source = self.sources.get(source_id)
            failures = (source.consecutive_failures if source else 0) + 1
            changes |= {"consecutive_failures": failures, "last_scraped_at": now}
            count(Metric.SOURCES_FAILED)
            detail = {"source_id": source_id, "error": error.reason, "consecutive_failures": failures}
            publish(self.settings.need("event_bus"), Event.SOURCE_FAILED, detail)
        self.sources.update(source_id, **changes)

    def _load(self, source: Source, message: ScrapeMessage) -> _Body:
        if message.key:
            return self._load_stored(message.key)
        if source.inline:
            return _Body(source.inline.encode())
        if source.path:
            return _Body(self._read_file(source.path))
        limits = Limits(
            total_seconds=self.settings.scrape_timeout_seconds,
            allow_http=source.allow_http,
            allow_loopback=self.settings.allow_loopback,
            networks=self.networks,
        )
        fetched = asyncio.run(fetch(source.url, limits=limits, etag=source.etag))
        return _Body(None if fetched.status == 304 else fetched.body, fetched.etag)

    def _load_stored(self, key: str) -> _Body:
        try:
            found = aws.client("s3").get_object(Bucket=self.settings.need("bodies_bucket"), Key=key)
        except ClientError as error:
            raise SourceError("the stored copy is gone") from error
        return _Body(found["Body"].read(), found.get("Metadata", {}).get("etag", ""))

    def _read_file(self, path: str) -> bytes:
        if not self.settings.allow_files:
            raise SourceError("files are not allowed")
        try:
            with Path(path).open("rb") as file:
                raw = file.read(MAX_FILE_BYTES + 1)
        except OSError as error:
            raise SourceError("unreadable") from error
        if len(raw) > MAX_FILE_BYTES:
            raise SourceError("too_large")
        return raw

    def _store(self, source: Source, parsed: Parsed, offset: int, now: datetime) -> Scraped:
        """Upserts from `offset` on, slice by slice, until enough are new; sends each slice's new ones at once."""
        new = updated = 0
        position, end = offset, min(len(parsed.proxies), offset + MAX_ROWS_PER_RUN)
        while position < end and new < self.settings.source_max_new:
            part = parsed.proxies[position : min(position + SLICE, end)]
            written = self.proxies.upsert_many(
                part, source_id=source.source_id, kind=source.kind, tags=source.tags, now=now
            )
            self._send(written.new, source.source_id)
            new, updated, position = new + len(written.new), updated + written.updated, position + len(part)
        return Scraped(
            new=new,
            updated=updated,
            rows=len(parsed.proxies) + sum(parsed.rejected.values()),
            valid=len(parsed.proxies),
            rejected=dict(parsed.rejected),
            next_offset=position if position < len(parsed.proxies) else 0,
        )

    def _send(self, records: Iterable[ProxyRecord], source_id: str) -> None:
        messages = [
            ValidateMessage(proxy_id=record.id, next_check_at=clock.epoch(record.next_check_at))
            for record in records
            if record.next_check_at is not None
        ]
        queues.send(self.settings.need("validate_queue_url"), messages, group=source_id)

    def _continue(self, source: Source, body: _Body, message: ScrapeMessage, offset: int) -> None:
        """Keeps the list (its name is its content: two runs keep one copy) and sends a message for the rest."""
        raw = body.raw or b""
        key = message.key or f"bodies/{source.source_id}/{blake2b(raw, digest_size=16).hexdigest()}"
        if not message.key:
            bucket = self.settings.need("bodies_bucket")
            aws.client("s3").put_object(Bucket=bucket, Key=key, Body=raw, Metadata={"etag": body.etag})
        rest = replace(message, key=key, offset=offset)
        queues.send(self.settings.need("scrape_queue_url"), [rest], group=source.source_id)

    def _note(self, source: Source, body: _Body, message: ScrapeMessage, scraped: Scraped, now: datetime) -> None:
        """The source's row, the metrics and the event."""
        is_first = not message.offset
        changes: dict[str, Any] = {"last_scraped_at": now, **_WELL, "last_error": "" if scraped.valid else NO_ROWS}
        changes |= {"rows": scraped.rows, "valid": scraped.valid, "rejected": scraped.rejected}
        changes["new"] = scraped.new + (0 if is_first else source.new)
        if scraped.valid:
            changes["last_success_at"] = now
        if not scraped.next_offset:
            changes["etag"] = body.etag if scraped.valid else ""
        self.sources.update(source.source_id, **changes)
        count(Metric.SOURCES_SCRAPED)
        count(Metric.PROXIES_DISCOVERED, scraped.new)
        count(Metric.PROXIES_UPDATED, scraped.updated)
        if is_first:  # the parts of one list have the same rejected rows
            count(Metric.LINES_REJECTED, sum(scraped.rejected.values()))
        if scraped.new:
            detail = {"source_id": source.source_id, "count": scraped.new}
            publish(self.settings.need("event_bus"), Event.NEW_BATCH, detail)


_WELL: Final[dict[str, Any]] = {"consecutive_failures": 0, "last_error": "", "not_before_at": None}
"""What a source's row says once it could be read."""
