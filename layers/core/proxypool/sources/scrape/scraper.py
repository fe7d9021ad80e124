"""scrape_source: load, fetch, parse, judge, upsert, send what is new to validation, and write down how the source fared.

One run at a time has a source to itself (a claim with a time limit), and every step is idempotent: a run that is torn,
repeated or overtaken changes nothing that another run would not change.
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
from proxypool.aws.state import State, is_paused
from proxypool.config.settings import Settings
from proxypool.errors import SourceError
from proxypool.network.address import FORBIDDEN, Networks
from proxypool.proxies.proxy import Proxy
from proxypool.proxies.record import ProxyRecord
from proxypool.proxies.table import ProxyTable
from proxypool.sources import health
from proxypool.sources.formats import ParseResult, parse
from proxypool.sources.record import Source
from proxypool.sources.scrape import caps, report
from proxypool.sources.scrape.digest import Seen, SeenStore
from proxypool.sources.scrape.loaders import Body, Places
from proxypool.sources.scrape.report import Scraped
from proxypool.sources.scrape.vetting import vetted
from proxypool.sources.table import SourceTable

SLICE: Final = 500  # proxies between two looks at how many were new
MAX_LOOKS_PER_RUN: Final = 10_000  # rows that are looked up, known or new
BUSY_SECONDS: Final = 30  # when a part comes again that found its source taken
GRACE_SECONDS: Final = 5  # a retry that was put off to this very instant may be a little early


@dataclass(slots=True)
class _Stored:
    """What storing a list, or a part of it, did."""

    new: int = 0
    updated: int = 0
    held_back: Counter[str] = field(default_factory=Counter)
    next_offset: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scraper:
    """Scrapes one source a call."""

    sources: SourceTable
    proxies: ProxyTable
    state: State
    settings: Settings
    networks: Networks = FORBIDDEN

    def scrape(
        self, message: ScrapeMessage, now: datetime, *, seconds_left: Callable[[], float] = lambda: inf
    ) -> Scraped:
        """Reads the source's list, or the rest of a stored one; raises SourceError where it cannot be had.

        Where `seconds_left` runs out, a message goes on. A list without a single good row, or one that looks wrong, removes nothing and changes no proxy.
        """
        source, reason = self._take(message, now)
        if source is None:
            return Scraped(skipped=reason)
        try:
            return self._scrape(source, message, now, seconds_left)
        except BaseException:
            self.sources.release(source.source_id, source.claim)
            raise

    def failed(self, source_id: str, error: SourceError, now: datetime, *, attempts: int, is_last: bool) -> None:
        """Writes a failure down; after the last try also tells the world. Proxies and enabled sources stay as they are."""
        report.failed(self.sources, self.settings, source_id, error, now, attempts=attempts, is_last=is_last)

    def _take(self, message: ScrapeMessage, now: datetime) -> tuple[Source | None, str]:
        """The source, claimed for this run; or None and why this message does nothing."""
        source = self.sources.get(message.source_id)
        if source is None or not source.enabled:
            return None, "disabled" if source else "unknown"
        if is_paused(self.state):  # scrape_all asks again once the pool runs
            return None, "paused"
        pause = source.not_before_at
        if pause is not None and clock.epoch(pause) - clock.epoch(now) > GRACE_SECONDS:
            return None, "asked_to_wait"
        claimed = self.sources.claim(source.source_id, now, seconds=self.settings.scrape_claim_seconds)
        if claimed is None:
            if message.key:  # the list that is read now may fail: the part is kept until it is known to be outdated
                self._send(message, delay_seconds=BUSY_SECONDS)
            return None, "running"
        if message.key and claimed.continues != part_name(message):
            self.sources.release(claimed.source_id, claimed.claim)
            return None, "superseded"
        return claimed, ""

    def _scrape(
        self, source: Source, message: ScrapeMessage, now: datetime, seconds_left: Callable[[], float]
    ) -> Scraped:
        places = Places(settings=self.settings, networks=self.networks)
        body = places.kept(message.key) if message.key else places.load(source, now)
        if body.raw is None:
            return report.unchanged(self.sources, source, now)
        parsed = vetted(
            parse(source.parser, body.raw, default_protocol=source.protocol),
            allow_loopback=self.settings.allow_loopback,
            networks=places.networks_of(source),
        )
        store = SeenStore(self.settings.need("bodies_bucket"))
        seen = store.load(source.source_id, source.fingerprint)
        looks_wrong = None if message.key else self._judge(source, parsed.proxies, seen)
        if looks_wrong:
            return report.refused(self.sources, self.settings, source, parsed, looks_wrong, now)
        stored = self._store(source, parsed.proxies, seen, message.offset, now, seconds_left)
        seen.keep(parsed.proxies, now)
        store.save(source.source_id, seen, source.fingerprint)
        following = self._continue(places, source, body, message, stored.next_offset)
        outcome = report.Outcome(
            source=source, body=body, scraped=_scraped(parsed, stored), marks=seen.marked(parsed.proxies),
            is_first=not message.key, following=following,
        )  # fmt: skip
        report.stored(self.sources, self.settings, outcome, now)
        return outcome.scraped

    def _judge(self, source: Source, proxies: Sequence[Proxy], seen: Seen) -> health.Suspicion | None:
        """What looks wrong about the list, by the health rule."""
        if not source.is_judged:
            return None
        new = None if seen.is_empty else sum(not seen.holds(proxy) for proxy in proxies)
        sample = health.Sample(valid=len(proxies), new=new, largest_network=caps.largest_network(proxies))
        return health.suspicion(sample, baseline_rows=source.baseline_rows, successes=source.successes)

    def _store(
        self,
        source: Source,
        proxies: Sequence[Proxy],
        seen: Seen,
        offset: int,
        now: datetime,
        seconds_left: Callable[[], float],
    ) -> _Stored:
        """Upserts from `offset` on, slice by slice, until enough are new; sends each slice's new ones at once."""
        known = self.settings
        bounds = caps.Caps(known.source_max_per_host, known.source_max_per_network) if source.is_judged else None
        allowed, held_back = caps.within(proxies, seen, bounds)
        out = _Stored(held_back=held_back if not offset else Counter())
        passing = {proxy.id for proxy in allowed} if held_back else None
        room = known.source_max_new_per_day - report.new_today(source, now)
        position, looks, step = offset, 0, min(SLICE, known.source_max_new)
        while position < len(proxies) and out.new < known.source_max_new and looks < MAX_LOOKS_PER_RUN:
            if position > offset and seconds_left() <= 0:
                break
            part = proxies[position : position + step]
            position += len(part)
            part = [p for p in part if (passing is None or p.id in passing) and not seen.is_fresh(p, now)]
            if out.new >= room:  # what is not known is not even looked up
                out.held_back[caps.Held.PER_DAY] += sum(not seen.holds(p) for p in part)
                part = [p for p in part if seen.holds(p)]
            looks += len(part)
            self._write(source, part, seen, out, max_new=max(0, room - out.new), now=now)
        out.next_offset = position if position < len(proxies) else 0
        return out

    def _write(
        self, source: Source, part: Sequence[Proxy], seen: Seen, out: _Stored, *, max_new: int, now: datetime
    ) -> None:
        """One slice into the table, its new proxies into the queue, both into the digest."""
        if not part:
            return
        written = self.proxies.upsert_many(
            part, source_id=source.source_id, kind=source.kind, tags=source.tags, now=now,
            allow_private=source.allow_private, slots=source.slots, max_new=max_new,
        )  # fmt: skip
        self._validate(written.new, source.source_id)
        seen.note((*written.new, *written.known), now)
        out.new += len(written.new)
        out.updated += written.updated
        if written.held_back:
            out.held_back[caps.Held.PER_DAY] += written.held_back

    def _validate(self, records: Iterable[ProxyRecord], source_id: str) -> None:
        messages = [
            ValidateMessage(proxy_id=record.id, next_check_at=clock.epoch(record.next_check_at))
            for record in records
            if record.next_check_at is not None
        ]
        queues.send(self.settings.need("validate_queue_url"), messages, group=source_id)

    def _continue(self, places: Places, source: Source, body: Body, message: ScrapeMessage, offset: int) -> str:
        """Keeps the list and sends a message for the rest, if there is one; returns that part's name."""
        if not offset:
            return ""
        rest = replace(message, key=message.key or places.keep(source, body), offset=offset)
        self._send(rest)
        return part_name(rest)

    def _send(self, message: ScrapeMessage, delay_seconds: int = 0) -> None:
        url = self.settings.need("scrape_queue_url")
        queues.send(url, [message], group=message.source_id, delay_seconds=delay_seconds)


def _scraped(parsed: ParseResult, stored: _Stored) -> Scraped:
    return Scraped(
        new=stored.new, updated=stored.updated, rows=len(parsed.proxies) + sum(parsed.rejected.values()),
        valid=len(parsed.proxies), rejected=dict(parsed.rejected), held_back=dict(+stored.held_back),
        next_offset=stored.next_offset,
    )  # fmt: skip


def part_name(message: ScrapeMessage) -> str:
    """What the source's row calls the part of a long list that comes next."""
    return f"{message.key}#{message.offset}"
