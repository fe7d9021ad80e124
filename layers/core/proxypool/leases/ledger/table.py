"""The ledger: one row per lease in DynamoDB, written from the journal. An ended row does not change any more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from pynamodb.attributes import NumberAttribute, UnicodeAttribute
from pynamodb.indexes import GlobalSecondaryIndex, KeysOnlyProjection
from pynamodb.models import Model

from proxypool import clock
from proxypool.aws.dynamodb import Statement, Value, bind_table, execute, get_item, insert, update
from proxypool.leases.ledger.journal import LedgerRow

OPEN_SHARDS = 16
DAY_SECONDS = 86_400


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
        """Writes rows: new ones as they are, an end over an open row once, a renewal only forward; returns how many took."""
        inserted = execute([self._insertion(row) for row in rows])
        known = [row for row, is_new in zip(rows, inserted, strict=True) if not is_new]
        changed = execute([self._end(row) if row.ended else self._renewal(row) for row in known])
        return sum(inserted) + sum(changed)

    def overdue(self, before_seconds: int, *, limit: int) -> Iterator[str]:
        """Ids of open leases with an end before that instant, at most `limit` per shard."""
        model = bind_table(LedgerItem, self.table_name)
        for shard in range(OPEN_SHARDS):
            for item in model.open.query(_shard_name(shard), LedgerItem.expires_at < before_seconds, limit=limit):
                yield item.lease_id

    def close_lost(self, lease_ids: Sequence[str], now_ms: int) -> int:
        """Ends open leases of which Redis knows nothing any more; returns how many were still open."""
        sets: dict[str, Value] = {"ended": "lost", "ended_ms": now_ms}
        return sum(
            execute([update(self.table_name, _is_open(one), sets=sets, removes=["open_shard"]) for one in lease_ids])
        )

    def get(self, lease_id: str) -> LedgerItem | None:
        """One row, read consistently; None where there is none."""
        return get_item(bind_table(LedgerItem, self.table_name), lease_id)

    def granted(self, start: datetime, end: datetime, *, owner: str = "", now: datetime) -> Iterator[LedgerItem]:
        """The leases (of one owner) granted from `start` until before `end`, unordered; scans the whole table.

        Rows past their TTL are left out, although DynamoDB may not have deleted them yet.
        """
        wanted = LedgerItem.granted_ms.between(clock.epoch_ms(start), clock.epoch_ms(end) - 1)
        wanted &= LedgerItem.ttl > clock.epoch(now)
        if owner:
            wanted &= LedgerItem.owner == owner
        yield from bind_table(LedgerItem, self.table_name).scan(wanted)

    def _insertion(self, row: LedgerRow) -> Statement:
        values: dict[str, Value] = {
            "lease_id": row.lease_id, "owner": row.owner, "proxy_id": row.proxy_id,
            "granted_ms": row.granted_ms, "expires_at": row.expires_ms // 1000,
            "ttl": row.granted_ms // 1000 + self.ttl_days * DAY_SECONDS,
        }  # fmt: skip
        values |= {name: text for name, text in (("target", row.target), ("outcome", row.outcome)) if text}
        values |= (
            {"ended": row.ended, "ended_ms": row.ended_ms} if row.ended else {"open_shard": open_shard(row.lease_id)}
        )
        return insert(self.table_name, values)

    def _end(self, row: LedgerRow) -> Statement:
        sets: dict[str, Value] = {"ended": row.ended, "ended_ms": row.ended_ms, "expires_at": row.expires_ms // 1000}
        if row.outcome:
            sets["outcome"] = row.outcome
        return update(self.table_name, _is_open(row.lease_id), sets=sets, removes=["open_shard"])

    def _renewal(self, row: LedgerRow) -> Statement:
        expires_at = row.expires_ms // 1000
        where = [*_is_open(row.lease_id), ("expires_at", "<", expires_at)]
        return update(self.table_name, where, sets={"expires_at": expires_at})


def _is_open(lease_id: str) -> list[tuple[str, str, Value]]:
    """The key of a lease, and that its row is still open."""
    return [("lease_id", "=", lease_id), ("open_shard", "=", open_shard(lease_id))]


def open_shard(lease_id: str) -> str:
    """The partition of an open lease in the index `open`."""
    return _shard_name(int(lease_id[:8], 16) % OPEN_SHARDS)


def _shard_name(shard: int) -> str:
    return f"{shard:02d}"
