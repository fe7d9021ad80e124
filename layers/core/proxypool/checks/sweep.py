"""The sweep: asks for what is due. Unchecked first, then active, then dead; page by page, a cursor per shard."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from proxypool import clock, queues
from proxypool.proxies.proxy import Status
from proxypool.proxies.record import due_shards
from proxypool.proxies.table import ProxyTable
from proxypool.queues import ValidateMessage
from proxypool.settings import Settings
from proxypool.state import State, is_paused
from proxypool.telemetry import Metric, count, log

CURSOR: Final = "cursor:revalidate_sweep"
FROM_BOTTOM_SECONDS: Final = 3_600  # how a lost message ages out
SWEPT: Final = (Status.UNCHECKED, Status.ACTIVE, Status.DEAD)


@dataclass(slots=True)
class _Shard:
    """Reads one shard of the index, from where the last sweep stopped."""

    name: str
    after: int
    page: int
    is_over: bool = False
    here: set[str] = field(default_factory=set)  # who stands at the instant `after` and was read

    def read(self, table: ProxyTable, before: datetime) -> list[tuple[str, int]]:
        """The next ones; a list is stored within one second, so that more than a page may share an instant."""
        found = table.due(self.name, before=before, after=self.after, limit=self.page)
        self.is_over = len(found) < self.page
        fresh = [pair for pair in found if pair[0] not in self.here]
        if found and found[-1][1] == self.after:
            self.page *= 2
        elif found:
            self.after, self.here = found[-1][1], set()
        self.here |= {proxy_id for proxy_id, at in found if at == self.after}
        return fresh


@dataclass(slots=True)
class _Lane:
    """All shards of one status, read in turn."""

    shards: list[_Shard]
    waiting: list[tuple[str, int]] = field(default_factory=list)

    def take(self, table: ProxyTable, *, before: datetime, size: int) -> list[tuple[str, int]]:
        """Up to `size` due proxies; fewer only at the end."""
        while len(self.waiting) < size and (shard := next((one for one in self.shards if not one.is_over), None)):
            self.waiting += shard.read(table, before)
        taken, self.waiting = self.waiting[:size], self.waiting[size:]
        return taken


@dataclass(frozen=True, slots=True)
class Sweep:
    """Sweeps of one deployment."""

    proxies: ProxyTable
    state: State
    settings: Settings

    def sweep(self, *, now: datetime, run_id: str, seconds_left: Callable[[], float]) -> dict[str, int]:
        """Sends what is due, until nothing is, `sweep_max_proxies` were sent or no time is left; returns the counts.

        Nothing is sent while the operator has paused the pool.
        """
        if is_paused(self.state):
            return {"count": 0, "paused": True}
        url, most = self.settings.need("validate_queue_url"), self.settings.sweep_max_proxies
        cursor = self._cursor(now)
        lanes = {status: _lane(status, cursor, self.settings.sweep_page) for status in SWEPT}
        if (backlog := queues.waiting(url)) >= most:
            log.warning("sweep skipped: backlog", backlog=backlog)
            overdue = sum(self._unsent(lane, now) for lane in lanes.values())
            count(Metric.PROXIES_OVERDUE, overdue)
            return {"count": 0, "overdue": overdue, "backlog": backlog}
        sent = 0
        seen: set[str] = set()
        while sent < most and seconds_left() > 0:
            page = self._page(lanes, now, min(self.settings.sweep_page, most - sent))
            if not page:
                break
            fresh = [pair for pair in dict(page).items() if pair[0] not in seen]
            seen.update(proxy_id for proxy_id, _ in fresh)
            messages = [ValidateMessage(proxy_id=id_, next_check_at=at, sweep_id=run_id) for id_, at in fresh]
            sent += queues.send(url, messages, group=queues.RECHECK_GROUP)
        overdue = sum(self._unsent(lane, now) for lane in lanes.values())
        count(Metric.PROXIES_ENQUEUED, sent)
        count(Metric.PROXIES_OVERDUE, overdue)
        self._keep(cursor, lanes)
        return {"count": sent, "overdue": overdue, "backlog": backlog}

    def _page(self, lanes: dict[Status, _Lane], now: datetime, size: int) -> list[tuple[str, int]]:
        """One page in the order of the statuses; overdue active ones get half of it, so that no flood starves them."""

        def take(status: Status, number: int) -> list[tuple[str, int]]:
            return lanes[status].take(self.proxies, before=now, size=number)

        active = take(Status.ACTIVE, size // 2)
        page = take(Status.UNCHECKED, size - len(active)) + active
        for status in (Status.ACTIVE, Status.DEAD):
            if len(page) < size:
                page += take(status, size - len(page))
        return page

    def _unsent(self, lane: _Lane, now: datetime) -> int:
        """How many are due that this sweep had no place or time for."""
        left = [self.proxies.count_due(one.name, before=now, after=one.after) for one in lane.shards if not one.is_over]
        return len(lane.waiting) + sum(left)

    def _cursor(self, now: datetime) -> dict[str, Any]:
        kept: dict[str, Any] | None = self.state.get(CURSOR)
        if kept is None or clock.epoch(now) - int(kept["since"]) >= FROM_BOTTOM_SECONDS:
            return {"since": clock.epoch(now), "after": {}}
        return kept

    def _keep(self, cursor: dict[str, Any], lanes: dict[Status, _Lane]) -> None:
        """Remembers where each shard stands; a lane with read but unsent proxies is read again."""
        after: dict[str, int] = dict(cursor["after"])
        for lane in lanes.values():
            if not lane.waiting:
                after |= {shard.name: shard.after for shard in lane.shards}
        self.state.put(CURSOR, {"since": cursor["since"], "after": after})


def _lane(status: Status, cursor: dict[str, Any], page: int) -> _Lane:
    return _Lane([_Shard(name, int(cursor["after"].get(name, 0)), page) for name in due_shards(status)])
