"""The ledger: one row per lease in DynamoDB, written from the journal. An ended row does not change any more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pynamodb.attributes import NumberAttribute, UnicodeAttribute
from pynamodb.indexes import GlobalSecondaryIndex, KeysOnlyProjection
from pynamodb.models import Model

from proxypool import clock
from proxypool.leases.journal import LedgerRow
from proxypool.table import Unbound, bind, execute, parameters

OPEN_SHARDS = 16
DAY_SECONDS = 86_400
_ANSWERS = ("", "DuplicateItem", "ConditionalCheckFailed")


class OpenIndex(GlobalSecondaryIndex["LedgerItem"]):
    """Open leases, soonest end first; keys only."""

    class Meta:
        """Its name in DynamoDB."""

        index_name = "open"
        projection = KeysOnlyProjection()

    open_shard = UnicodeAttribute(hash_key=True)
    expires_at = NumberAttribute(range_key=True)


class LedgerItem(Model):
    """A row; `expires_at` and `ttl` in epoch seconds, other instants in ms. Only an open lease has `open_shard`."""

    class Meta(Unbound):
        """Bound at run time."""

    open = OpenIndex()
    lease_id = UnicodeAttribute(hash_key=True)
    owner = UnicodeAttribute()
    proxy_id = UnicodeAttribute()
    target = UnicodeAttribute(null=True)
    granted_ms = NumberAttribute()
    expires_at = NumberAttribute()
    outcome = UnicodeAttribute(null=True)
    ended = UnicodeAttribute(null=True)
    ended_ms = NumberAttribute(null=True)
    open_shard = UnicodeAttribute(null=True)
    ttl = NumberAttribute()


@dataclass(frozen=True, slots=True)
class Ledger:
    """All access to the leases table. Every write may be repeated, overlap another one or arrive late."""

    table_name: str
    ttl_days: int

    def write(self, rows: Sequence[LedgerRow]) -> int:
        """Inserts new rows, ends open ones once, and extends them only to a later end; returns how many writes took effect."""
        codes = self._execute([self._insertion(row) for row in rows])
        known = [row for row, code in zip(rows, codes, strict=True) if code]
        again = self._execute([self._end(row) if row.ended else self._renewal(row) for row in known])
        return codes.count("") + again.count("")

    def overdue(self, before_seconds: int, *, limit: int) -> Iterator[str]:
        """Ids of open leases with an end before that instant, at most `limit` per shard."""
        model = bind(LedgerItem, self.table_name)
        for shard in range(OPEN_SHARDS):
            for item in model.open.query(_shard_name(shard), LedgerItem.expires_at < before_seconds, limit=limit):
                yield item.lease_id

    def close_lost(self, lease_ids: Sequence[str], now_ms: int) -> int:
        """Ends open leases that Redis has lost; returns how many were still open."""
        statement = f'UPDATE "{self.table_name}" SET ended = ?, ended_ms = ? REMOVE open_shard WHERE lease_id = ? AND open_shard = ?'
        rows = [(statement, parameters("lost", now_ms, lease_id, open_shard(lease_id))) for lease_id in lease_ids]
        return self._execute(rows).count("")

    def get(self, lease_id: str) -> LedgerItem | None:
        """One row, read consistently, or None."""
        try:
            return bind(LedgerItem, self.table_name).get(lease_id, consistent_read=True)
        except LedgerItem.DoesNotExist:
            return None

    def granted(self, start: datetime, end: datetime, *, owner: str = "", now: datetime) -> Iterator[LedgerItem]:
        """The leases (of one owner) granted from `start` until before `end`, unordered; scans the whole table.

        Rows past their TTL are left out, although DynamoDB may not have deleted them yet.
        """
        wanted = LedgerItem.granted_ms.between(clock.epoch_ms(start), clock.epoch_ms(end) - 1)
        wanted &= LedgerItem.ttl > clock.epoch(now)
        if owner:
            wanted &= LedgerItem.owner == owner
        yield from bind(LedgerItem, self.table_name).scan(wanted)

    def _insertion(self, row: LedgerRow) -> tuple[str, list[dict[str, Any]]]:
        values: dict[str, str | int] = {
            "lease_id": row.lease_id, "owner": row.owner, "proxy_id": row.proxy_id,
            "granted_ms": row.granted_ms, "expires_at": row.expires_ms // 1000,
            "ttl": row.granted_ms // 1000 + self.ttl_days * DAY_SECONDS,
        }  # fmt: skip
        values |= {name: text for name, text in (("target", row.target), ("outcome", row.outcome)) if text}
        values |= (
            {"ended": row.ended, "ended_ms": row.ended_ms} if row.ended else {"open_shard": open_shard(row.lease_id)}
        )
        pairs = ", ".join(f"'{name}': ?" for name in values)
        return f'INSERT INTO "{self.table_name}" VALUE {{{pairs}}}', parameters(*values.values())

    def _end(self, row: LedgerRow) -> tuple[str, list[dict[str, Any]]]:
        sets = "SET ended = ?, ended_ms = ?, expires_at = ?" + (", outcome = ?" if row.outcome else "")
        statement = f'UPDATE "{self.table_name}" {sets} REMOVE open_shard WHERE lease_id = ? AND open_shard = ?'
        values: list[str | int] = [
            row.ended,
            row.ended_ms,
            row.expires_ms // 1000,
            *([row.outcome] if row.outcome else []),
        ]
        return statement, parameters(*values, row.lease_id, open_shard(row.lease_id))

    def _renewal(self, row: LedgerRow) -> tuple[str, list[dict[str, Any]]]:
        statement = (
            f'UPDATE "{self.table_name}" SET expires_at = ? WHERE lease_id = ? AND open_shard = ? AND expires_at < ?'
        )
        ends = row.expires_ms // 1000
        return statement, parameters(ends, row.lease_id, open_shard(row.lease_id), ends)

    def _execute(self, statements: Sequence[tuple[str, list[dict[str, Any]]]]) -> list[str]:
        codes = execute(statements)
        unexpected = [code for code in codes if code not in _ANSWERS]
        if unexpected:  # the entries stay in the journal, and the next run repeats the writes
            raise RuntimeError(f"DynamoDB refused a statement: {unexpected[0]}")
        return codes


def open_shard(lease_id: str) -> str:
    """The partition of an open lease in the index `open`."""
    return _shard_name(int(lease_id[:8], 16) % OPEN_SHARDS)


def _shard_name(shard: int) -> str:
    return f"{shard:02d}"
