"""expire_leases: the bridge between Redis and DynamoDB. The ledger and the gauges depend on it, the safety of leases does not."""

from __future__ import annotations

import secrets
import time
from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta

from proxypool import clock
from proxypool.aws.state import EPOCH, GAUGES, REBUILD, REBUILD_WANTED, SETTINGS, StateTable
from proxypool.leases import filters, operator_settings
from proxypool.leases.index.pool_low_filters import WatchedFilter
from proxypool.leases.index.ready import Index
from proxypool.leases.ledger import journal
from proxypool.leases.ledger.journal import EntryKind, JournalEntry
from proxypool.leases.ledger.table import Ledger
from proxypool.leases.pool import REFUSAL_REASONS
from proxypool.leases.redis.cache import Cache
from proxypool.proxies.proxy import Protocol
from proxypool.proxies.table import ProxyTable
from proxypool.telemetry import Metric, count, count_by, log

LOCK_MS = 90_000  # a crashed run blocks the next ones for that long; overlapping runs change nothing
PURGED_PER_CALL = 200
ENTRIES_PER_PAGE = 500
RECORDS_PER_PAGE = 500
LOST_MARGIN_SECONDS = 60
LOST_PER_SHARD = 100
_COUNTED = {
    EntryKind.GRANT: Metric.LEASES_GRANTED,
    EntryKind.RENEWAL: Metric.LEASES_RENEWED,
    EntryKind.RELEASE: Metric.LEASES_RELEASED,
    EntryKind.EXPIRY: Metric.LEASES_EXPIRED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bridge:
    """The bridge of one pool. Each step may be repeated, interrupted or overlapped by another run without harm."""

    cache: Cache
    index: Index
    ledger: Ledger
    proxies: ProxyTable
    state: StateTable
    strict: bool  # after a loss of the cache the pool stays closed until no lost lease can be live
    max_lease_seconds: int
    pool_low_filters: tuple[WatchedFilter, ...] = ()  # filters whose ready proxies are counted for pool_low
    low_mark: int = 0  # counting stops at this number

    def run(self, run_id: str, *, until: float) -> dict[str, int]:
        """Runs all steps under the lock, long ones until `until` (time.monotonic()). Returns the counts, or {"locked": 1}."""
        if self.cache.command("SET", self.cache.keys.lock, run_id, "NX", "PX", LOCK_MS) is None:
            return {"locked": 1}
        try:
            return self._steps(until)
        finally:
            self.cache.run("unlock", run_id)

    def _steps(self, until: float) -> dict[str, int]:
        self.copy_settings()
        counts = {"count_rebuilt": self.heal(clock.now(), until) + self.rebuild(until)}
        counts["count_expired"] = self.free(until)
        entries, drained = self.drain(until)
        counts |= {"count_journal": entries, "count_lost": self.close_lost(clock.now()) if drained else 0}
        return counts | self.gauge(clock.now())

    def copy_settings(self) -> None:
        """Copies the operator's settings from the state table to the pool's hash, where acquire reads them."""
        fields, key = operator_settings.pool_fields(self.state.get(SETTINGS) or {}), self.cache.keys.settings
        old = [
            name
            for name in self.cache.command("HKEYS", key)
            if (name in operator_settings.OPTIONAL_FIELDS or name.startswith(operator_settings.RATE_FIELD_PREFIX))
            and name not in fields
        ]
        if old:
            self.cache.command("HDEL", key, *old)
        self.cache.command("HSET", key, *(text for field in fields.items() for text in field))

    def heal(self, now: datetime, until: float) -> int:
        """Fills a new or lost cache from the table and opens it; returns how many proxies were indexed.

        A new pool opens at once. After a loss a strict pool opens when all leases from before it have ended. If the end of the
        table is not reached by `until`, the next run continues.
        """
        if self._get("epoch"):
            return 0
        lost = self.state.get(EPOCH) is not None
        if lost:
            self.state.put_if_absent(REBUILD, {"seen_at": clock.iso(now)})
        filled = 0 if self._is_filled() else self._fill(until)
        if not self._is_filled():
            return filled
        if lost and self.strict and now < self._loss_seen(now) + timedelta(seconds=self.max_lease_seconds):
            return filled
        epoch = clock.iso(now)
        self.state.put(EPOCH, epoch)
        self._set("epoch", epoch)
        self.state.delete(REBUILD)
        return filled

    def rebuild(self, until: float) -> int:
        """Writes every row into the index again on the operator's request, or if the members' layout has changed.

        Page by page, in as many runs as it takes; the pool stays open, since the epoch stays. Returns how many were written.
        """
        if self.state.get(REBUILD_WANTED) is not None:
            self.cache.command("HDEL", self.cache.keys.settings, "filled", "fill_after")
            self.state.delete(REBUILD_WANTED)  # before the fill: a request that comes during it starts another one
        return 0 if self._is_filled() else self._fill(until)

    def free(self, until: float) -> int:
        """Ends expired leases, pins and breakers in bounded batches; returns how many leases ended."""
        total = 0
        while time.monotonic() < until:
            handled, ended = self.cache.run("expire", PURGED_PER_CALL)
            total += ended
            if not handled:
                break
        return total

    def drain(self, until: float) -> tuple[int, bool]:
        """Writes the journal's entries to the ledger and the proxies, then trims them: (how many, whether all)."""
        total = 0
        while time.monotonic() < until:
            found = self.cache.command("XRANGE", self.cache.keys.journal, "-", "+", "COUNT", ENTRIES_PER_PAGE)
            if not found:
                return total, True
            entries, unreadable = journal.parse_entries(found)
            if unreadable:  # a retry cannot help, and the entries after them must not wait
                count(Metric.RECORDS_SKIPPED, unreadable)
                log.error("journal entries skipped", count=unreadable)
            self.ledger.write(journal.ledger_rows(entries))
            self._fold(entries)
            self.cache.command("XTRIM", self.cache.keys.journal, "MINID", _after(found[-1][0]))
            _count(entries)
            total += len(entries)
        return total, False

    def close_lost(self, now: datetime) -> int:
        """Ends expired ledger rows that are not in Redis: their end was lost with the cache."""
        overdue = list(self.ledger.overdue(clock.epoch(now) - LOST_MARGIN_SECONDS, limit=LOST_PER_SHARD))
        gone = [lease for lease in overdue if not self.cache.command("HEXISTS", self.cache.keys.leases, lease)]
        return self.ledger.close_lost(gone, clock.epoch_ms(now))

    def gauge(self, now: datetime) -> dict[str, int]:
        """Counts ready proxies, leases and journal entries, for the metrics and for `GET /stats/pool`."""
        ready, leases, length, age_ms, refused = self.cache.run("gauge", *Protocol)
        gauges = {
            "ready": ready,
            "leases_open": leases,
            "journal_length": length,
            "journal_age_seconds": age_ms // 1000,
        }
        ready_by = {one.name: one.ready(self.cache, enough=self.low_mark) for one in self.pool_low_filters}
        self.state.put(GAUGES, {"at": clock.iso(now), **gauges, "ready_by": ready_by})
        for metric, value in zip(_GAUGES, gauges.values(), strict=True):
            count(metric, value)
        count(Metric.POOL_LOW, int(ready < self.low_mark))
        for reason, number in zip(refused[::2], refused[1::2], strict=True):
            count_by(Metric.LEASES_REFUSED, int(number), "reason", reason if reason in REFUSAL_REASONS else "other")
        return gauges

    def _fill(self, until: float) -> int:
        """Indexes the table from where the last run of this fill stopped; "filled" is set when the end is reached.

        Stops where the cursor in the cache is not this fill's any more: the cache was lost, another run has reached the end, or a
        new fill was requested. What was written before may be gone, so the next run must not continue from here.
        """
        fill, after = self._fill_begun()
        filled = 0
        while time.monotonic() < until:
            records, after = self.proxies.scan_page(after=after, limit=RECORDS_PER_PAGE)
            filled += self.index.upsert(records, again=True)
            if not (self._get("fill_after") or "").startswith(fill):
                break
            if after is None:
                if self.cache.command("HDEL", self.cache.keys.settings, "fill_after"):
                    self._set("filled", filters.LAYOUT_VERSION)
                break
            self._set("fill_after", fill + after)
        return filled

    def _fill_begun(self) -> tuple[str, str | None]:
        """The fill of this layout that has not reached the end, and its cursor; else a new one, from the table's beginning."""
        layout, _, rest = (self._get("fill_after") or "").partition(" ")
        fill, _, cursor = rest.partition(" ")
        if layout != filters.LAYOUT_VERSION or not fill:
            fill, cursor = secrets.token_hex(6), ""
            self._set("fill_after", f"{filters.LAYOUT_VERSION} {fill} ")
        return f"{filters.LAYOUT_VERSION} {fill} ", cursor or None

    def _is_filled(self) -> bool:
        """Whether the whole table was indexed with the current layout."""
        return self._get("filled") == filters.LAYOUT_VERSION

    def _fold(self, entries: list[JournalEntry]) -> None:
        """Adds the entries to each proxy's evidence if its row does not have them yet. The stream is read before the rows, so
        entries that another run has trimmed are already in them."""
        of_proxy: dict[str, list[JournalEntry]] = {}
        for entry in entries:
            of_proxy.setdefault(entry.proxy_id, []).append(entry)
        for proxy_id, record in self.proxies.get_many(of_proxy).items():
            facts = journal.add_evidence(record.lease, of_proxy[proxy_id])
            if facts != record.lease:
                self.proxies.fold_lease(proxy_id, facts)

    def _loss_seen(self, now: datetime) -> datetime:
        seen = self.state.get(REBUILD)
        return datetime.fromisoformat(seen["seen_at"]) if seen else now

    def _get(self, name: str) -> str | None:
        value: str | None = self.cache.command("HGET", self.cache.keys.settings, name)
        return value

    def _set(self, name: str, value: str | int) -> None:
        self.cache.command("HSET", self.cache.keys.settings, name, value)


_GAUGES = (Metric.PROXIES_READY, Metric.LEASES_OPEN, Metric.JOURNAL_LENGTH, Metric.JOURNAL_AGE)


def _after(stream_id: str) -> str:
    """The stream id after this one: trimming to it deletes the entry, and none that was added since."""
    ms, _, seq = stream_id.partition("-")
    return f"{ms}-{int(seq) + 1}"


def _count(entries: list[JournalEntry]) -> None:
    counted = Counter(entry.kind for entry in entries)
    for kind, metric in _COUNTED.items():
        if counted[kind]:
            count(metric, counted[kind])
