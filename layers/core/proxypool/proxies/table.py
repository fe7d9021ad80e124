"""The proxies table: the record of every proxy. All writes are conditional, and each makes `version` grow.

Bulk writes are PartiQL statements, 25 a call (the same units as single ones, a tenth of the round trips); their WHERE
knows AND but no OR, so that `claim` is a number on every row, 0 for none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from pynamodb.attributes import (
    BooleanAttribute,
    DynamicMapAttribute,
    NumberAttribute,
    UnicodeAttribute,
    UnicodeSetAttribute,
)
from pynamodb.indexes import GlobalSecondaryIndex, KeysOnlyProjection
from pynamodb.models import Model

from proxypool import clock
from proxypool.aws.dynamodb import Statement, Value, bind, execute, find, insert, try_write, update
from proxypool.proxies.proxy import Anonymity, Kind, Protocol, Proxy, Status
from proxypool.proxies.record import CheckFacts, LeaseFacts, ProxyRecord, TargetFact, due_shard

FIRST_CHECK_SECONDS = 3_600  # a new proxy's message is sent at once; this is when a sweep would notice that it was lost
SEEN_SECONDS = 86_400  # last_seen_at is written once a day at most

_CHECK_NAMES = {
    "passed": "p",
    "failed": "f",
    "count": "n",
    "unpruned": "u",
    "failures_in_row": "r",
    "latency_ms": "l",
    "jitter_ms": "j",
    "exit_ip": "x",
    "country": "c",
    "region": "e",
    "anonymity": "a",
    "https": "h",
    "tampered": "t",
    "signed": "s",
    "reason": "y",
    "blame": "b",
    "interval_seconds": "i",
    "last_success_at": "o",
    "exits": "g",
    "asn": "w",
    "basis": "v",
    "checks_since_full": "m",
    "targets": "k",
}  # fmt: skip  (attributes are short: the item stays under 1 KB)
_LEASE_NAMES = {"ok": "o", "bad": "b", "granted": "g"}


class DueIndex(GlobalSecondaryIndex["ProxyItem"]):
    """Who is to be checked, by status and shard, soonest first; keys only."""

    class Meta:
        """What DynamoDB calls it."""

        index_name = "due"
        projection = KeysOnlyProjection()

    due_shard = UnicodeAttribute(hash_key=True)
    next_check_at = NumberAttribute(range_key=True)


class ProxyItem(Model):
    """A row; instants are epoch seconds."""

    due = DueIndex()
    proxy_id = UnicodeAttribute(hash_key=True)
    protocol = UnicodeAttribute(attr_name="pr")
    host = UnicodeAttribute(attr_name="ho")
    port = NumberAttribute(attr_name="po")
    username = UnicodeAttribute(attr_name="us", null=True)
    password = UnicodeAttribute(attr_name="pw", null=True)
    kind = UnicodeAttribute(attr_name="ki", null=True)
    tags = UnicodeSetAttribute(attr_name="tg", null=True)
    status = UnicodeAttribute(attr_name="st")
    sources = UnicodeSetAttribute(attr_name="so", null=True)
    allow_private = BooleanAttribute(attr_name="ap", null=True)
    first_seen_at = NumberAttribute(attr_name="fs")
    last_seen_at = NumberAttribute(attr_name="ls")
    last_checked_at = NumberAttribute(attr_name="lc", null=True)
    next_check_at = NumberAttribute(null=True)
    due_shard = UnicodeAttribute(null=True)
    slots = NumberAttribute(attr_name="sl", null=True)
    claim = NumberAttribute(default=0)
    version = NumberAttribute()
    check = DynamicMapAttribute(attr_name="ck", null=True)
    lease = DynamicMapAttribute(attr_name="le", null=True)
    jid = UnicodeAttribute(null=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Upserted:
    """What writing a list's proxies did: the new records, the known ones as they stand now (`updated` of them written)."""

    new: tuple[ProxyRecord, ...]
    known: tuple[ProxyRecord, ...]
    updated: int
    unchanged: int
    held_back: int = 0  # new ones beyond `max_new`: not written


@dataclass(frozen=True, slots=True)
class ProxyTable:
    """All access to the proxies table."""

    table_name: str

    def get(self, proxy_id: str) -> ProxyRecord | None:
        """One record, read consistently; None where there is none."""
        item = find(self._model, proxy_id)
        return None if item is None else from_item(item)

    def get_many(self, proxy_ids: Iterable[str]) -> dict[str, ProxyRecord]:
        """The records that exist, by id, 100 a call, read consistently."""
        ids = list(dict.fromkeys(proxy_ids))
        return {item.proxy_id: from_item(item) for item in self._model.batch_get(ids, consistent_read=True)}

    def scan(self) -> Iterator[ProxyRecord]:
        """Every record, page by page."""
        return map(from_item, self._model.scan())

    def scan_page(self, *, after: str | None, limit: int) -> tuple[list[ProxyRecord], str | None]:
        """One page of all records and where the next begins (None at the end)."""
        key = {"proxy_id": {"S": after}} if after else None
        page = self._model.scan(limit=limit, page_size=limit, last_evaluated_key=key)
        records = [from_item(item) for item in page]
        last = page.last_evaluated_key
        return records, last["proxy_id"]["S"] if last else None

    def due(self, shard: str, *, before: datetime, after: int = 0, limit: int) -> list[tuple[str, int]]:
        """Who in one shard of the index is due by `before`: (proxy_id, next_check_at), soonest first.

        `after` goes on behind that instant (epoch seconds). The index is eventually consistent: the claim decides.
        """
        found = self._model.due.query(
            shard, ProxyItem.next_check_at.between(after, clock.epoch(before)), limit=limit, page_size=limit
        )
        return [(item.proxy_id, int(item.next_check_at or 0)) for item in found]

    def count_due(self, shard: str, *, before: datetime | None = None, after: int = 0) -> int:
        """How many stand in one shard of the index; with `before`, how many are due by then and behind `after`."""
        until = None if before is None else ProxyItem.next_check_at.between(after + 1, clock.epoch(before))
        return self._model.due.count(shard, until)

    def upsert_many(
        self,
        proxies: Sequence[Proxy],
        *,
        source_id: str,
        kind: Kind,
        tags: frozenset[str],
        now: datetime,
        allow_private: bool = False,
        slots: int = 1,
        max_new: int | None = None,
    ) -> Upserted:
        """Writes a list's proxies: new ones unchecked and due in an hour, known ones only where that tells something.

        `slots` is how many may hold a new one at once. Idempotent: a known proxy of this source is written again once a day at most; a retired one never: its row is
        the tombstone. Raises Throttled or StatementRefused (a retry of the whole is harmless).
        """
        known = self.get_many(proxy.id for proxy in proxies)
        absent = [proxy for proxy in proxies if proxy.id not in known]
        fresh = [
            _new_record(proxy, source_id, kind=kind, tags=tags, now=now, allow_private=allow_private, slots=slots)
            for proxy in absent[:max_new]
        ]
        stale = [record for record in known.values() if _tells_something(record, source_id, tags, now)]
        written = execute([self._insertion(record) for record in fresh])
        new = [record for record, is_new in zip(fresh, written, strict=True) if is_new]
        execute([self._sighting(record, source_id, tags, now) for record in stale])
        known |= {record.id: _sighted(record, source_id, tags, now) for record in stale}
        held_back = len(absent) - len(fresh)
        return Upserted(
            new=tuple(new),
            known=tuple(known.values()),
            updated=len(stale),
            unchanged=len(proxies) - len(new) - len(stale) - held_back,
            held_back=held_back,
        )

    def claim_many(self, due: Mapping[str, int], *, now: datetime, claim_seconds: int) -> dict[str, int]:
        """Claims proxies for a check: {proxy_id: next_check_at as in the message} → {proxy_id: claim} of those that took.

        A live claim, another next_check_at or a missing row refuses: duplicates and stale messages end here.
        """
        until = clock.epoch_ms(now + timedelta(seconds=claim_seconds))
        now_ms = clock.epoch_ms(now)
        statements = [
            self._update(proxy_id, ("next_check_at", "=", due_at), ("claim", "<=", now_ms), sets={"claim": until})
            for proxy_id, due_at in due.items()
        ]
        return {proxy_id: until for proxy_id, is_claimed in zip(due, execute(statements), strict=True) if is_claimed}

    def record_many(self, records: Sequence[ProxyRecord]) -> set[str]:
        """Writes what checks found (status, check facts, instants) under each record's claim, and ends the claim.

        Returns the ids that took effect; a late loser's result is discarded.
        """
        written = execute([self._result(record) for record in records])
        return {record.id for record, is_written in zip(records, written, strict=True) if is_written}

    def release_claims(self, claims: Mapping[str, int]) -> None:
        """Ends claims without a result, so that a retry can claim at once."""
        execute([self._update(one, ("claim", "=", claim), sets={"claim": 0}) for one, claim in claims.items()])

    def return_unasked(self, claimed: Sequence[ProxyRecord], *, now: datetime) -> None:
        """Ends claims without a result, as if the message had not come; a proxy that was due later (a new one) is due now."""
        due = {record.id: clock.epoch(min(record.next_check_at or now, now)) for record in claimed}
        execute(
            [
                self._update(one.id, ("claim", "=", one.claim), sets={"claim": 0, "next_check_at": due[one.id]})
                for one in claimed
            ]
        )

    def trimmed(self, record: ProxyRecord, unpruned: int) -> bool:
        """Sets how many check records the proxy has now, if its row is still as read; False where it changed."""
        item = self._model(record.id)
        actions: list[Any] = [ProxyItem.check["u"].set(unpruned), ProxyItem.version.add(1)]
        return try_write(lambda: item.update(actions=actions, condition=ProxyItem.version == record.version))

    def fold_lease(self, proxy_id: str, facts: LeaseFacts) -> bool:
        """Writes what holders reported, only above the journal entry that the row already holds; False if it was not above."""
        if not facts.journal_id:
            raise ValueError("a journal id is needed")
        item = self._model(proxy_id)
        above = ProxyItem.jid.does_not_exist() | (ProxyItem.jid < facts.journal_id)
        values = {_LEASE_NAMES[name]: getattr(facts, name) for name in _LEASE_NAMES}
        actions: list[Any] = [
            ProxyItem.lease.set(values),
            ProxyItem.jid.set(facts.journal_id),
            ProxyItem.version.add(1),
        ]
        return try_write(lambda: item.update(actions=actions, condition=ProxyItem.proxy_id.exists() & above))

    def describe(
        self, proxy_id: str, *, tags: frozenset[str] | None = None, kind: Kind | None = None, slots: int | None = None
    ) -> bool:
        """Sets tags (replacing), the kind, how many may hold it at once; False where there is no such proxy."""
        actions: list[Any] = [ProxyItem.version.add(1)]
        if tags is not None:
            actions.append(ProxyItem.tags.set(set(tags)) if tags else ProxyItem.tags.remove())
        if kind is not None:
            actions.append(ProxyItem.kind.set(kind.value))
        if slots is not None:
            actions.append(ProxyItem.slots.set(slots))
        item = self._model(proxy_id)
        return try_write(lambda: item.update(actions=actions, condition=ProxyItem.proxy_id.exists()))

    def retire(self, proxy_id: str) -> bool:
        """Removes a proxy for good: the row stays as a tombstone that no list revives. False where there is none."""
        actions: list[Any] = [
            ProxyItem.status.set(Status.RETIRED.value), ProxyItem.due_shard.remove(), ProxyItem.next_check_at.remove(),
            ProxyItem.claim.set(0), ProxyItem.version.add(1),
        ]  # fmt: skip
        item = self._model(proxy_id)
        return try_write(lambda: item.update(actions=actions, condition=ProxyItem.proxy_id.exists()))

    def restore(self, proxy_id: str, *, now: datetime) -> bool:
        """Takes a removal back: the proxy is unchecked and due now. False where it is not retired, or not there."""
        actions: list[Any] = [
            ProxyItem.status.set(Status.UNCHECKED.value), ProxyItem.next_check_at.set(clock.epoch(now)),
            ProxyItem.due_shard.set(str(due_shard(Status.UNCHECKED, proxy_id))), ProxyItem.version.add(1),
        ]  # fmt: skip
        item = self._model(proxy_id)
        return try_write(lambda: item.update(actions=actions, condition=ProxyItem.status == Status.RETIRED.value))

    def delete_dead(self, record: ProxyRecord) -> bool:
        """Deletes the row if it is still as read: dead and unclaimed; False where it changed."""
        unchanged = (ProxyItem.status == Status.DEAD.value) & (ProxyItem.version == record.version)
        item = self._model(record.id)
        return try_write(lambda: item.delete(condition=unchanged))

    @property
    def _model(self) -> type[ProxyItem]:
        return bind(ProxyItem, self.table_name)

    def _insertion(self, record: ProxyRecord) -> Statement:
        return insert(
            self.table_name, {name: value for name, value in to_item(record).serialize().items() if value is not None}
        )

    def _sighting(self, record: ProxyRecord, source_id: str, tags: frozenset[str], now: datetime) -> Statement:
        sets: dict[str, Value] = {"ls": clock.epoch(now), "so": {"SS": sorted(record.sources | {source_id})}}
        if all_tags := sorted(record.tags | tags):
            sets["tg"] = {"SS": all_tags}
        return self._update(record.id, sets=sets)

    def _result(self, record: ProxyRecord) -> Statement:
        shard, due = due_shard(record.status, record.id), record.next_check_at
        if shard is None or due is None or record.last_checked_at is None or not record.claim:
            raise ValueError("a result has a claim, an instant and a next one")
        facts = to_item(record).serialize().get("ck", {"M": {}})
        sets: dict[str, Value] = {
            "st": record.status.value, "due_shard": shard, "next_check_at": clock.epoch(due),
            "lc": clock.epoch(record.last_checked_at), "ck": facts, "claim": 0,
        }  # fmt: skip
        return self._update(record.id, ("claim", "=", record.claim), sets=sets)

    def _update(self, proxy_id: str, *conditions: tuple[str, str, Value], sets: Mapping[str, Value]) -> Statement:
        return update(self.table_name, [("proxy_id", "=", proxy_id), *conditions], sets=sets, adds={"version": 1})


def to_item(record: ProxyRecord) -> ProxyItem:
    """The row of a record."""
    proxy = record.proxy
    return ProxyItem(
        record.id,
        protocol=proxy.protocol.value, host=proxy.host, port=proxy.port, username=proxy.username, password=proxy.password,
        kind=record.kind.value, tags=set(record.tags) or None, status=record.status.value,
        sources=set(record.sources) or None, allow_private=record.allow_private or None,
        first_seen_at=clock.epoch(record.first_seen_at), last_seen_at=clock.epoch(record.last_seen_at),
        last_checked_at=_seconds(record.last_checked_at), next_check_at=_seconds(record.next_check_at),
        due_shard=due_shard(record.status, record.id) if record.next_check_at else None,
        slots=record.slots if record.slots > 1 else None, claim=record.claim, version=record.version,
        check=_pack(record.check, CheckFacts(), _CHECK_NAMES) or None,
        lease=_pack(record.lease, LeaseFacts(), _LEASE_NAMES) or None,
        jid=record.lease.journal_id or None,
    )  # fmt: skip


def from_item(item: ProxyItem) -> ProxyRecord:
    """The record of a row; attributes that this version does not know are ignored."""
    return ProxyRecord(
        proxy=Proxy(Protocol(item.protocol), item.host, int(item.port), item.username, item.password),
        status=Status(item.status),
        kind=Kind(item.kind or Kind.UNKNOWN),
        tags=frozenset(item.tags or ()),
        sources=frozenset(item.sources or ()),
        allow_private=bool(item.allow_private),
        first_seen_at=clock.from_epoch(item.first_seen_at),
        last_seen_at=clock.from_epoch(item.last_seen_at),
        last_checked_at=_instant(item.last_checked_at),
        next_check_at=_instant(item.next_check_at),
        check=_unpack_check(item.check.as_dict() if item.check is not None else {}),
        lease=_unpack_lease(item.lease.as_dict() if item.lease is not None else {}, item.jid or ""),
        slots=int(item.slots or 1),
        claim=int(item.claim),
        version=int(item.version),
    )


def from_image(image: Mapping[str, Any]) -> ProxyRecord:
    """The record in a stream's image (DynamoDB's own JSON); raises ValueError or KeyError where it is none."""
    item = ProxyItem()
    item.deserialize(dict(image))
    return from_item(item)


def _new_record(
    proxy: Proxy, source_id: str, *, kind: Kind, tags: frozenset[str], now: datetime, allow_private: bool, slots: int
) -> ProxyRecord:
    return ProxyRecord(
        proxy=proxy, kind=kind, tags=tags, sources=frozenset({source_id}), first_seen_at=now, last_seen_at=now,
        next_check_at=now + timedelta(seconds=FIRST_CHECK_SECONDS), version=clock.epoch_ms(now),
        allow_private=allow_private, slots=slots,
    )  # fmt: skip


def _sighted(record: ProxyRecord, source_id: str, tags: frozenset[str], now: datetime) -> ProxyRecord:
    """The record as `_sighting` leaves it."""
    return replace(record, last_seen_at=now, sources=record.sources | {source_id}, tags=record.tags | tags)


def _tells_something(record: ProxyRecord, source_id: str, tags: frozenset[str], now: datetime) -> bool:
    if record.status is Status.RETIRED:
        return False
    old = now - record.last_seen_at >= timedelta(seconds=SEEN_SECONDS)
    return old or source_id not in record.sources or not tags <= record.tags


def _pack(facts: Any, empty: Any, names: Mapping[str, str]) -> dict[str, Any]:
    """Facts as a map of short names, without those that say nothing."""
    out: dict[str, Any] = {}
    for name, short in names.items():
        value = getattr(facts, name)
        if value == getattr(empty, name):
            continue
        if isinstance(value, datetime):
            value = clock.epoch(value)
        elif isinstance(value, StrEnum):
            value = value.value
        elif isinstance(value, float):
            value = round(value, 4)
        elif isinstance(value, tuple):
            value = list(value)
        elif isinstance(value, Mapping):
            value = {host: f"{fact.verdict} {clock.epoch(fact.at)}" for host, fact in value.items()}
        out[short] = value
    return out


def _unpack_check(packed: Mapping[str, Any]) -> CheckFacts:
    values = {name: packed[short] for name, short in _CHECK_NAMES.items() if short in packed}
    for name in ("count", "unpruned", "failures_in_row", "interval_seconds", "checks_since_full", "asn"):
        if name in values:
            values[name] = int(values[name])
    if "anonymity" in values:
        values["anonymity"] = Anonymity(values["anonymity"])
    if "last_success_at" in values:
        values["last_success_at"] = clock.from_epoch(values["last_success_at"])
    values["exits"] = tuple(values.get("exits", ()))
    values["targets"] = {host: _target(text) for host, text in dict(values.get("targets", {})).items()}
    return CheckFacts(**values)


def _target(text: str) -> TargetFact:
    verdict, _, seconds = text.partition(" ")
    return TargetFact(verdict=verdict, at=clock.from_epoch(int(seconds)))


def _unpack_lease(packed: Mapping[str, Any], journal_id: str) -> LeaseFacts:
    values = {name: packed[short] for name, short in _LEASE_NAMES.items() if short in packed}
    return LeaseFacts(
        ok=float(values.get("ok", 0)),
        bad=float(values.get("bad", 0)),
        granted=int(values.get("granted", 0)),
        journal_id=journal_id,
    )


def _seconds(instant: datetime | None) -> int | None:
    return None if instant is None else clock.epoch(instant)


def _instant(seconds: float | None) -> datetime | None:
    return None if seconds is None else clock.from_epoch(seconds)
