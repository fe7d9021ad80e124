"""The sweep: enqueues proxies that are due (unchecked, then active, then dead), page by page, with a cursor per shard."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from proxypool import clock
from proxypool.aws import queues
from proxypool.aws.queues import ValidateMessage
from proxypool.aws.state import StateTable, is_paused
from proxypool.config.settings import Settings
from proxypool.proxies.proxy import Status
from proxypool.proxies.record import due_shards
from proxypool.proxies.table import ProxyTable
from proxypool.telemetry import Metric, count, log

CURSOR: Final = "cursor:revalidate_sweep"
CURSOR_RESET_SECONDS: Final = 3_600  # after a lost message, the proxy is enqueued again within this time
SWEEP_ORDER: Final = (Status.UNCHECKED, Status.ACTIVE, Status.DEAD)


@dataclass(slots=True)
class _ShardReader:
    """Reads one shard of the index `due`, from the cursor of the last sweep."""

    name: str
    after: int
    page: int
    exhausted: bool = False
    ids_at_cursor: set[str] = field(default_factory=set)  # proxies due at the second `after` that were read already

    def read(self, table: ProxyTable, before: datetime) -> list[tuple[str, int]]:
        """The next page of (proxy id, due epoch seconds); more proxies than fit in a page may be due in the same
        second.
        """
        due = table.due(self.name, before=before, after=self.after, limit=self.page)
        self.exhausted = len(due) < self.page
        unread = [pair for pair in due if pair[0] not in self.ids_at_cursor]
        if due and due[-1][1] == self.after:
            self.page *= 2
        elif due:
            self.after, self.ids_at_cursor = due[-1][1], set()
        self.ids_at_cursor |= {proxy_id for proxy_id, due_at in due if due_at == self.after}
        return unread


@dataclass(slots=True)
class _StatusReader:
    """Reads all shards of one status, one after the other."""

    shards: list[_ShardReader]
    buffer: list[tuple[str, int]] = field(default_factory=list)

    def take(self, table: ProxyTable, *, before: datetime, size: int) -> list[tuple[str, int]]:
        """Up to `size` due proxies; fewer only if no more are due."""
        while len(self.buffer) < size and (shard := next((item for item in self.shards if not item.exhausted), None)):
            self.buffer += shard.read(table, before)
        page, self.buffer = self.buffer[:size], self.buffer[size:]
        return page


@dataclass(frozen=True, slots=True)
class Sweep:
    """Sweeps of one deployment."""

    proxies: ProxyTable
    state: StateTable
    settings: Settings

    def sweep(self, *, now: datetime, run_id: str, seconds_left: Callable[[], float]) -> dict[str, int]:
        """Enqueues due proxies until none is left, `sweep_max_proxies` were sent or no time is left.

        Returns `count` (sent), `overdue` (due but not sent) and `backlog` (messages in the queue before). Sends nothing
        if the backlog is `sweep_max_proxies` or more, or while the operator has paused the pool. Raises SendFailed.
        """
        if is_paused(self.state):
            return {"count": 0, "paused": True}
        url, max_proxies = self.settings.need("validate_queue_url"), self.settings.sweep_max_proxies
        cursor = self._load_cursor(now)
        readers = {status: _status_reader(status, cursor, self.settings.sweep_page) for status in SWEEP_ORDER}
        if (backlog := queues.approximate_message_count(url)) >= max_proxies:
            log.warning("sweep skipped: backlog", backlog=backlog)
            overdue = sum(self._count_unsent(reader, now) for reader in readers.values())
            count(Metric.PROXIES_OVERDUE, overdue)
            return {"count": 0, "overdue": overdue, "backlog": backlog}
        sent = 0
        sent_ids: set[str] = set()
        while sent < max_proxies and seconds_left() > 0:
            page = self._page(readers, now, min(self.settings.sweep_page, max_proxies - sent))
            if not page:
                break
            unsent = [pair for pair in dict(page).items() if pair[0] not in sent_ids]
            sent_ids.update(proxy_id for proxy_id, _ in unsent)
            messages = [ValidateMessage(proxy_id=id_, next_check_at=at, sweep_id=run_id) for id_, at in unsent]
            sent += queues.send(url, messages, group=queues.RECHECK_GROUP)
        overdue = sum(self._count_unsent(reader, now) for reader in readers.values())
        count(Metric.PROXIES_ENQUEUED, sent)
        count(Metric.PROXIES_OVERDUE, overdue)
        self._save_cursor(cursor, readers)
        return {"count": sent, "overdue": overdue, "backlog": backlog}

    def _page(self, readers: dict[Status, _StatusReader], now: datetime, size: int) -> list[tuple[str, int]]:
        """One page in the order of the statuses. Overdue active proxies get half of it, so that new ones cannot starve
        them.
        """

        def take(status: Status, count: int) -> list[tuple[str, int]]:
            return readers[status].take(self.proxies, before=now, size=count)

        active = take(Status.ACTIVE, size // 2)
        page = take(Status.UNCHECKED, size - len(active)) + active
        for status in (Status.ACTIVE, Status.DEAD):
            if len(page) < size:
                page += take(status, size - len(page))
        return page

    def _count_unsent(self, reader: _StatusReader, now: datetime) -> int:
        """The number of due proxies that this sweep did not send."""
        unread = [
            self.proxies.count_due(shard.name, before=now, after=shard.after)
            for shard in reader.shards
            if not shard.exhausted
        ]
        return len(reader.buffer) + sum(unread)

    def _load_cursor(self, now: datetime) -> dict[str, Any]:
        """The stored cursor, or a new one if it is CURSOR_RESET_SECONDS old."""
        cursor: dict[str, Any] | None = self.state.get(CURSOR)
        if cursor is None or clock.epoch(now) - int(cursor["since"]) >= CURSOR_RESET_SECONDS:
            return {"since": clock.epoch(now), "after": {}}
        return cursor

    def _save_cursor(self, cursor: dict[str, Any], readers: dict[Status, _StatusReader]) -> None:
        """Stores each shard's position, except for statuses with proxies that were read but not sent: those are read
        again.
        """
        after: dict[str, int] = dict(cursor["after"])
        for reader in readers.values():
            if not reader.buffer:
                after |= {shard.name: shard.after for shard in reader.shards}
        self.state.put(CURSOR, {"since": cursor["since"], "after": after})


def _status_reader(status: Status, cursor: dict[str, Any], page: int) -> _StatusReader:
    return _StatusReader([_ShardReader(name, int(cursor["after"].get(name, 0)), page) for name in due_shards(status)])
