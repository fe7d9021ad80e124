"""The two daily prune tasks. Both read page by page with a stored cursor, may overlap, and stop before the time limit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from proxypool.aws.state import StateTable
from proxypool.checks.rules.retention import is_prunable, prunable_checks
from proxypool.checks.table import ChecksTable
from proxypool.config.settings import Settings
from proxypool.proxies.proxy import Status
from proxypool.proxies.record import ProxyRecord, due_shards
from proxypool.proxies.table import ProxyTable
from proxypool.telemetry import Metric, count

PAGE_SIZE: Final = 200
DEAD_CURSOR: Final = "cursor:prune_dead_proxies"
CHECKS_CURSOR: Final = "cursor:prune_old_checks"
FAR_FUTURE: Final = datetime(2200, 1, 1, tzinfo=UTC)  # past the next check of every dead proxy


@dataclass(frozen=True, slots=True)
class Pruner:
    """Prunes the tables of one deployment."""

    proxies: ProxyTable
    checks: ChecksTable
    state: StateTable
    settings: Settings

    def prune_dead_proxies(self, *, now: datetime, seconds_left: Callable[[], float]) -> dict[str, int]:
        """Deletes proxies that were dead for `dead_retention_days`, with their checks, shard by shard; lease records
        stay for the audit.
        """
        pruned = 0
        shards = due_shards(Status.DEAD)
        first = int((self.state.get(DEAD_CURSOR) or {}).get("shard", 0))
        for index in [*range(first, len(shards)), *range(first)]:
            for record in self._dead(shards[index]):
                if seconds_left() <= 0:
                    self.state.put(DEAD_CURSOR, {"shard": index})
                    return _count_metric(Metric.PROXIES_PRUNED, pruned)
                if is_prunable(record, now=now, days=self.settings.dead_retention_days):
                    pruned += self._delete(record)
        self.state.put(DEAD_CURSOR, {"shard": 0})
        return _count_metric(Metric.PROXIES_PRUNED, pruned)

    def prune_old_checks(self, *, now: datetime, seconds_left: Callable[[], float]) -> dict[str, int]:
        """Deletes checks older than `check_retention_days` of the proxies with more than `check_keep` of them."""
        pruned = 0
        after: str | None = (self.state.get(CHECKS_CURSOR) or {}).get("after")
        while seconds_left() > 0:
            page, after = self.proxies.scan_page(after=after, limit=PAGE_SIZE)
            pruned += sum(
                self._trim(record, now) for record in page if record.check.unpruned > self.settings.check_keep
            )
            self.state.put(CHECKS_CURSOR, {"after": after})
            if after is None:
                break
        return _count_metric(Metric.CHECKS_PRUNED, pruned)

    def _dead(self, shard: str) -> Iterator[ProxyRecord]:
        limit, after = PAGE_SIZE, 0
        while True:
            due = self.proxies.due(shard, before=FAR_FUTURE, after=after, limit=limit)
            yield from self.proxies.get_many(proxy_id for proxy_id, _ in due).values()
            if len(due) < limit:
                return
            if due[-1][1] == after:
                limit *= 2
            after = due[-1][1]

    def _delete(self, record: ProxyRecord) -> bool:
        """Deletes the proxy, then its checks: checks that a crash leaves behind expire by TTL."""
        if not self.proxies.delete_dead(record):
            return False
        self.checks.delete(record.id, self.checks.keys(record.id))
        return True

    def _trim(self, record: ProxyRecord, now: datetime) -> int:
        settings = self.settings
        keys = self.checks.keys(record.id)
        old = prunable_checks(keys, now=now, days=settings.check_retention_days, keep=settings.check_keep)
        deleted = self.checks.delete(record.id, old)
        # Without effect if a check changed the row meanwhile: the next run visits it again.
        self.proxies.trimmed(record, len(keys) - deleted)
        return deleted


def _count_metric(metric: Metric, deleted: int) -> dict[str, int]:
    count(metric, deleted)
    return {"count": deleted}
