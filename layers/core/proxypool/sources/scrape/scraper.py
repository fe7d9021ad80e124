"""scrape_source: load, parse, judge, upsert, enqueue checks of new proxies, report.

A run claims its source with a time limit, and every step is idempotent, so that interrupted, repeated and overlapping runs
have the effect of one run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from math import inf
from typing import Final

from proxypool import clock
from proxypool.aws import queues
from proxypool.aws.queues import ScrapeMessage, ValidateMessage
from proxypool.aws.state import StateTable, is_paused
from proxypool.config.settings import Settings
from proxypool.errors import SourceError
from proxypool.network.address import FORBIDDEN_NETWORKS, Networks
from proxypool.proxies.proxy import Proxy
from proxypool.proxies.record import ProxyRecord
from proxypool.proxies.table import ProxyTable
from proxypool.sources import health
from proxypool.sources.formats import ParseResult, parse
from proxypool.sources.record import Source
from proxypool.sources.scrape import caps, report
from proxypool.sources.scrape.digest import Digest, DigestStore
from proxypool.sources.scrape.loaders import Body, ListLoader
from proxypool.sources.scrape.report import ScrapeResult
from proxypool.sources.scrape.vetting import remove_forbidden
from proxypool.sources.table import SourceTable

PROXIES_PER_UPSERT: Final = 500  # proxies per upsert
MAX_READS_PER_RUN: Final = 10_000  # rows read from the table
BUSY_SECONDS: Final = 30  # delay of a part whose source is claimed by another run
GRACE_SECONDS: Final = 5  # a retry scheduled for the end of a pause may arrive a little early


@dataclass(slots=True)
class _StoreResult:
    """Counts of storing a list or a part of it."""

    new: int = 0
    updated: int = 0
    held_back: Counter[str] = field(default_factory=Counter)
    next_offset: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scraper:
    """Scrapes one source per call."""

    sources: SourceTable
    proxies: ProxyTable
    state: StateTable
    settings: Settings
    networks: Networks = FORBIDDEN_NETWORKS

    def scrape(
        self, message: ScrapeMessage, now: datetime, *, seconds_left: Callable[[], float] = lambda: inf
    ) -> ScrapeResult:
        """Scrapes a source, or continues a stored list; raises SourceError.

        If `seconds_left` runs out, another message continues. A suspicious list, or one without a valid row, changes no proxy.
        """
        source, reason = self._claim(message, now)
        if source is None:
            return ScrapeResult(skipped=reason)
        try:
            return self._scrape(source, message, now, seconds_left)
        except BaseException:
            self.sources.release(source.source_id, source.claim)
            raise

    def failed(self, source_id: str, error: SourceError, now: datetime, *, attempts: int, is_last: bool) -> None:
        """Reports a failed scrape; see `report.report_failed`."""
        report.report_failed(self.sources, self.settings, source_id, error, now, attempts=attempts, is_last=is_last)

    def _claim(self, message: ScrapeMessage, now: datetime) -> tuple[Source | None, str]:
        """Claims the source for this run; returns it, or None and the reason why the message is skipped."""
        source = self.sources.get(message.source_id)
        if source is None or not source.enabled:
            return None, "disabled" if source else "unknown"
        if is_paused(self.state):  # scrape_all enqueues it again after the pause
            return None, "paused"
        pause = source.not_before_at
        if pause is not None and clock.epoch(pause) - clock.epoch(now) > GRACE_SECONDS:
            return None, "asked_to_wait"
        claimed = self.sources.claim(source.source_id, now, seconds=self.settings.scrape_claim_seconds)
        if claimed is None:
            if message.key:  # the other run may fail, so this part is retried until it is superseded
                self._send(message, delay_seconds=BUSY_SECONDS)
            return None, "running"
        if message.key and claimed.continues != part_name(message):
            self.sources.release(claimed.source_id, claimed.claim)
            return None, "superseded"
        return claimed, ""

    def _scrape(
        self, source: Source, message: ScrapeMessage, now: datetime, seconds_left: Callable[[], float]
    ) -> ScrapeResult:
        loader = ListLoader(settings=self.settings, networks=self.networks)
        body = loader.load_copy(message.key) if message.key else loader.load(source, now)
        if body.raw is None:
            return report.report_unchanged(self.sources, source, now)
        parsed = remove_forbidden(
            parse(source.parser, body.raw, default_protocol=source.protocol),
            allow_loopback=self.settings.allow_loopback,
            networks=loader.forbidden_networks(source),
        )
        store = DigestStore(self.settings.need("bodies_bucket"))
        digest = store.load(source.source_id, source.fingerprint)
        suspicion = None if message.key else self._judge(source, parsed.proxies, digest)
        if suspicion:
            return report.report_refused(self.sources, self.settings, source, parsed, suspicion, now)
        stored = self._store(source, parsed.proxies, digest, message.offset, now, seconds_left)
        digest.retain(parsed.proxies, now)
        store.save(source.source_id, digest, source.fingerprint)
        following = self._continue(loader, source, body, message, stored.next_offset)
        part = report.StoredPart(
            source=source, body=body, scraped=_scraped(parsed, stored), marks=digest.count_marks(parsed.proxies),
            is_first=not message.key, following=following,
        )  # fmt: skip
        report.report_stored(self.sources, self.settings, part, now)
        return part.scraped

    def _judge(self, source: Source, proxies: Sequence[Proxy], digest: Digest) -> health.Suspicion | None:
        """Applies the health rules to the list."""
        if not source.is_judged:
            return None
        new = None if digest.is_empty else sum(not digest.contains(proxy) for proxy in proxies)
        sample = health.Sample(valid=len(proxies), new=new, largest_network=caps.largest_network(proxies))
        return health.suspicion(sample, baseline_rows=source.baseline_rows, successes=source.successes)

    def _store(
        self,
        source: Source,
        proxies: Sequence[Proxy],
        digest: Digest,
        offset: int,
        now: datetime,
        seconds_left: Callable[[], float],
    ) -> _StoreResult:
        """Upserts slices from `offset` on until a limit is reached; enqueues the checks of each slice at once."""
        config = self.settings
        bounds = caps.Caps(config.source_max_per_host, config.source_max_per_network) if source.is_judged else None
        allowed, held_back = caps.apply_host_and_network_caps(proxies, digest, bounds)
        out = _StoreResult(held_back=held_back if not offset else Counter())
        allowed_ids = {proxy.id for proxy in allowed} if held_back else None
        remaining_today = config.source_max_new_per_day - report.new_today(source, now)
        position, reads, step = offset, 0, min(PROXIES_PER_UPSERT, config.source_max_new)
        while position < len(proxies) and out.new < config.source_max_new and reads < MAX_READS_PER_RUN:
            if position > offset and seconds_left() <= 0:
                break
            part = proxies[position : position + step]
            position += len(part)
            part = [p for p in part if (allowed_ids is None or p.id in allowed_ids) and not digest.is_fresh(p, now)]
            if out.new >= remaining_today:  # new proxies are not even looked up
                out.held_back[caps.CapReason.PER_DAY] += sum(not digest.contains(p) for p in part)
                part = [p for p in part if digest.contains(p)]
            reads += len(part)
            self._write(source, part, digest, out, max_new=max(0, remaining_today - out.new), now=now)
        out.next_offset = position if position < len(proxies) else 0
        return out

    def _write(
        self, source: Source, part: Sequence[Proxy], digest: Digest, out: _StoreResult, *, max_new: int, now: datetime
    ) -> None:
        """Upserts one slice, enqueues checks of its new proxies, and updates the digest."""
        if not part:
            return
        written = self.proxies.upsert_many(
            part, source_id=source.source_id, kind=source.kind, tags=source.tags, now=now,
            allow_private=source.allow_private, slots=source.slots, max_new=max_new,
        )  # fmt: skip
        self._validate(written.new, source.source_id)
        digest.add((*written.new, *written.known), now)
        out.new += len(written.new)
        out.updated += written.updated
        if written.held_back:
            out.held_back[caps.CapReason.PER_DAY] += written.held_back

    def _validate(self, records: Iterable[ProxyRecord], source_id: str) -> None:
        messages = [
            ValidateMessage(proxy_id=record.id, next_check_at=clock.epoch(record.next_check_at))
            for record in records
            if record.next_check_at is not None
        ]
        queues.send(self.settings.need("validate_queue_url"), messages, group=source_id)

    def _continue(self, loader: ListLoader, source: Source, body: Body, message: ScrapeMessage, offset: int) -> str:
        """Stores the list and sends a message for the next part, if there is one; returns the name of that part."""
        if not offset:
            return ""
        following = replace(message, key=message.key or loader.store_copy(source, body), offset=offset)
        self._send(following)
        return part_name(following)

    def _send(self, message: ScrapeMessage, delay_seconds: int = 0) -> None:
        url = self.settings.need("scrape_queue_url")
        queues.send(url, [message], group=message.source_id, delay_seconds=delay_seconds)


def _scraped(parsed: ParseResult, stored: _StoreResult) -> ScrapeResult:
    return ScrapeResult(
        new=stored.new, updated=stored.updated, rows=len(parsed.proxies) + sum(parsed.rejected.values()),
        valid=len(parsed.proxies), rejected=dict(parsed.rejected), held_back=dict(+stored.held_back),
        next_offset=stored.next_offset,
    )  # fmt: skip


def part_name(message: ScrapeMessage) -> str:
    """The name of a part of a long list in the row of its source."""
    return f"{message.key}#{message.offset}"
