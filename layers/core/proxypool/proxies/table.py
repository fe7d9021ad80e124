"""The proxies table: the record of every proxy. All writes are conditional and increment `version`.

Bulk writes are PartiQL statements, 25 per call (the same capacity units as single writes, a tenth of the round trips). Their
WHERE has AND but no OR, so every row has a `claim`: 0 for none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from pynamodb.attributes import DynamicMapAttribute, NumberAttribute, UnicodeAttribute, UnicodeSetAttribute
from pynamodb.indexes import GlobalSecondaryIndex, KeysOnlyProjection
from pynamodb.models import Model

from proxypool import clock
from proxypool.aws.dynamodb import (
    Statement,
    Value,
    bind_table,
    execute,
    get_item,
    insert,
    try_write,
    update,
    with_attributes,
)
from proxypool.http.codec import attributes
from proxypool.http.fields import to_arguments, to_attributes, to_row
from proxypool.proxies.proxy import Kind, Protocol, Proxy, Status
from proxypool.proxies.record import CheckFacts, LeaseFacts, ProxyRecord, due_shard

FIRST_CHECK_SECONDS = 3_600  # a new proxy's message is sent at once; after this a sweep sends it again if it was lost
SEEN_SECONDS = 86_400  # last_seen_at is written at most once a day


class DueIndex(GlobalSecondaryIndex["ProxyItem"]):
    """Proxies by status and shard in order of their next check; keys only."""

    class Meta:
        """Name and projection of the index."""

        index_name = "due"
        projection = KeysOnlyProjection()

    due_shard = UnicodeAttribute(hash_key=True)
    next_check_at = NumberAttribute(range_key=True)


_ATTRIBUTES = attributes(ProxyRecord)
_UNPRUNED = attributes(CheckFacts)["unpruned"][0]


@with_attributes(_ATTRIBUTES)
class ProxyItem(Model):
    """A row: the key, the parts of the proxy's URL, the keys of the index, and an attribute for each field of `ProxyRecord`."""

    due = DueIndex()
    proxy_id = UnicodeAttribute(hash_key=True)
    protocol = UnicodeAttribute(attr_name="pr")
    host = UnicodeAttribute(attr_name="ho")
    port = NumberAttribute(attr_name="po")
    username = UnicodeAttribute(attr_name="us", null=True)
    password = UnicodeAttribute(attr_name="pw", null=True)
    due_shard = UnicodeAttribute(null=True)
    check = DynamicMapAttribute(attr_name="ck", null=True)
    lease = DynamicMapAttribute(attr_name="le", null=True)
    journal_id = UnicodeAttribute(attr_name="jid", null=True)
    status: UnicodeAttribute
    kind: UnicodeAttribute
    tags: UnicodeSetAttribute
    slots: NumberAttribute
    next_check_at: NumberAttribute
    claim: NumberAttribute
    version: NumberAttribute


@dataclass(frozen=True, slots=True, kw_only=True)
class Upserted:
    """The result of writing a list: the new records, and the known ones with their current values (`updated` of them written)."""

    new: tuple[ProxyRecord, ...]
    known: tuple[ProxyRecord, ...]
    updated: int
    unchanged: int
    held_back: int = 0  # new ones beyond `max_new`, not written


@dataclass(frozen=True, slots=True)
class ProxyTable:
    """All access to the proxies table."""

    table_name: str

    def get(self, proxy_id: str) -> ProxyRecord | None:
        """One record, read consistently, or None."""
        item = get_item(self._model, proxy_id)
        return None if item is None else from_item(item)

    def get_many(self, proxy_ids: Iterable[str]) -> dict[str, ProxyRecord]:
        """The records that exist, by id, 100 a call, read consistently."""
        ids = list(dict.fromkeys(proxy_ids))
        return {item.proxy_id: from_item(item) for item in self._model.batch_get(ids, consistent_read=True)}

    def scan(self) -> Iterator[ProxyRecord]:
        """Every record, page by page."""
        return map(from_item, self._model.scan())

    def scan_page(self, *, after: str | None, limit: int) -> tuple[list[ProxyRecord], str | None]:
        """One page of all records, and the key to continue after (None at the end)."""
        key = {"proxy_id": {"S": after}} if after else None
        page = self._model.scan(limit=limit, page_size=limit, last_evaluated_key=key)
        records = [from_item(item) for item in page]
        last = page.last_evaluated_key
        return records, last["proxy_id"]["S"] if last else None

    def due(self, shard: str, *, before: datetime, after: int = 0, limit: int) -> list[tuple[str, int]]:
        """The proxies in one shard of the index that are due by `before`: (proxy_id, next_check_at), soonest first.

        `after` (epoch seconds) continues after that instant. The index is eventually consistent: the claim decides.
        """
        found = self._model.due.query(
            shard, ProxyItem.next_check_at.between(after, clock.epoch(before)), limit=limit, page_size=limit
        )
        return [(item.proxy_id, int(item.next_check_at or 0)) for item in found]

    def count_due(self, shard: str, *, before: datetime | None = None, after: int = 0) -> int:
        """Number of proxies in one shard of the index; with `before`, of those due by then and after `after` (epoch seconds)."""
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
        """Writes a list's proxies: new ones as unchecked, due in an hour; known ones only if something changes.

        `slots` is the number of concurrent leases of a new one. Idempotent: a known proxy of this source is written at most once
        a day; a retired one never, since its row is a tombstone. Raises Throttled or StatementRefused (retry the whole call).
        """
        known = self.get_many(proxy.id for proxy in proxies)
        absent = [proxy for proxy in proxies if proxy.id not in known]
        fresh = [
            _new_record(proxy, source_id, kind=kind, tags=tags, now=now, allow_private=allow_private, slots=slots)
            for proxy in absent[:max_new]
        ]
        stale = [record for record in known.values() if _is_news(record, source_id, tags, now)]
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
        """Claims proxies for a check: {proxy_id: next_check_at of the message} → {proxy_id: claim}, for those that succeeded.

        Fails for a live claim, another next_check_at or a missing row, which drops duplicate and stale messages.
        """
        until = clock.epoch_ms(now + timedelta(seconds=claim_seconds))
        now_ms = clock.epoch_ms(now)
        statements = [
            self._update(proxy_id, ("next_check_at", "=", due_at), ("claim", "<=", now_ms), sets={"claim": until})
            for proxy_id, due_at in due.items()
        ]
        return {proxy_id: until for proxy_id, is_claimed in zip(due, execute(statements), strict=True) if is_claimed}

    def record_many(self, records: Sequence[ProxyRecord]) -> set[str]:
        """Writes check results (status, check facts, instants) under each record's claim, and ends the claim.

        Returns the ids that were written. The result of a claim that was lost is discarded.
        """
        written = execute([self._result(record) for record in records])
        return {record.id for record, is_written in zip(records, written, strict=True) if is_written}

    def release_claims(self, claims: Mapping[str, int]) -> None:
        """Ends claims without a result, so that a retry can claim at once."""
        execute([self._update(one, ("claim", "=", claim), sets={"claim": 0}) for one, claim in claims.items()])

    def return_unasked(self, claimed: Sequence[ProxyRecord], *, now: datetime) -> None:
        """Ends claims without a result; a proxy that was due later (a new one) becomes due now."""
        due = {record.id: clock.epoch(min(record.next_check_at or now, now)) for record in claimed}
        execute(
            [
                self._update(one.id, ("claim", "=", one.claim), sets={"claim": 0, "next_check_at": due[one.id]})
                for one in claimed
            ]
        )

    def trimmed(self, record: ProxyRecord, unpruned: int) -> bool:
        """Sets the number of the proxy's check records if its row has not changed since it was read; else False."""
        item = self._model(record.id)
        actions: list[Any] = [ProxyItem.check[_UNPRUNED].set(unpruned), ProxyItem.version.add(1)]
        return try_write(lambda: item.update(actions=actions, condition=ProxyItem.version == record.version))

    def fold_lease(self, proxy_id: str, facts: LeaseFacts) -> bool:
        """Writes lease outcomes if their journal entry is newer than the row's; else False."""
        if not facts.journal_id:
            raise ValueError("a journal id is needed")
        item = self._model(proxy_id)
        is_newer = ProxyItem.journal_id.does_not_exist() | (ProxyItem.journal_id < facts.journal_id)
        actions: list[Any] = [
            ProxyItem.lease.set(to_attributes(ProxyRecord, {"lease": facts})["lease"] or {}),
            ProxyItem.journal_id.set(facts.journal_id),
            ProxyItem.version.add(1),
        ]
        return try_write(lambda: item.update(actions=actions, condition=ProxyItem.proxy_id.exists() & is_newer))

    def describe(
        self, proxy_id: str, *, tags: frozenset[str] | None = None, kind: Kind | None = None, slots: int | None = None
    ) -> bool:
        """Sets tags (replacing the old ones), kind and slots, each unless None; False if the proxy does not exist."""
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
        """Retires a proxy: its row remains as a tombstone, so that no list adds it again. False if it does not exist."""
        actions: list[Any] = [
            ProxyItem.status.set(Status.RETIRED.value), ProxyItem.due_shard.remove(), ProxyItem.next_check_at.remove(),
            ProxyItem.claim.set(0), ProxyItem.version.add(1),
        ]  # fmt: skip
        item = self._model(proxy_id)
        return try_write(lambda: item.update(actions=actions, condition=ProxyItem.proxy_id.exists()))

    def restore(self, proxy_id: str, *, now: datetime) -> bool:
        """Reverts `retire`: the proxy is unchecked and due now. False if it is not retired, or does not exist."""
        actions: list[Any] = [
            ProxyItem.status.set(Status.UNCHECKED.value), ProxyItem.next_check_at.set(clock.epoch(now)),
            ProxyItem.due_shard.set(str(due_shard(Status.UNCHECKED, proxy_id))), ProxyItem.version.add(1),
        ]  # fmt: skip
        item = self._model(proxy_id)
        return try_write(lambda: item.update(actions=actions, condition=ProxyItem.status == Status.RETIRED.value))

    def delete_dead(self, record: ProxyRecord) -> bool:
        """Deletes a dead proxy's row if it has not changed since it was read; else False."""
        unchanged = (ProxyItem.status == Status.DEAD.value) & (ProxyItem.version == record.version)
        item = self._model(record.id)
        return try_write(lambda: item.delete(condition=unchanged))

    @property
    def _model(self) -> type[ProxyItem]:
        return bind_table(ProxyItem, self.table_name)

    def _insertion(self, record: ProxyRecord) -> Statement:
        return insert(
            self.table_name, {name: value for name, value in to_item(record).serialize().items() if value is not None}
        )

    def _sighting(self, record: ProxyRecord, source_id: str, tags: frozenset[str], now: datetime) -> Statement:
        sets: dict[str, Value] = {
            "last_seen_at": clock.epoch(now),
            "sources": {"SS": sorted(record.sources | {source_id})},
        }
        if all_tags := sorted(record.tags | tags):
            sets["tags"] = {"SS": all_tags}
        return self._update(record.id, sets=sets)

    def _result(self, record: ProxyRecord) -> Statement:
        shard, due = due_shard(record.status, record.id), record.next_check_at
        if shard is None or due is None or record.last_checked_at is None or not record.claim:
            raise ValueError("a result has a claim, an instant and a next one")
        facts = to_item(record).serialize().get(_ATTRIBUTES["check"][0], {"M": {}})
        sets: dict[str, Value] = {
            "status": record.status.value, "due_shard": shard, "next_check_at": clock.epoch(due),
            "last_checked_at": clock.epoch(record.last_checked_at), "check": facts, "claim": 0,
        }  # fmt: skip
        return self._update(record.id, ("claim", "=", record.claim), sets=sets)

    def _update(self, proxy_id: str, *conditions: tuple[str, str, Value], sets: Mapping[str, Value]) -> Statement:
        where = [("proxy_id", "=", proxy_id), *conditions]
        named = {_ATTRIBUTES[name][0] if name in _ATTRIBUTES else name: value for name, value in sets.items()}
        return update(self.table_name, where, sets=named, adds={"version": 1})


def to_item(record: ProxyRecord) -> ProxyItem:
    """The row of a record."""
    due = due_shard(record.status, record.id) if record.next_check_at else None
    journal_id = record.lease.journal_id or None
    values = to_row(record) | {
        "slots": record.slots if record.slots > 1 else None,
        "allow_private": record.allow_private or None,
    }  # the usual values are not stored
    return ProxyItem(record.id, due_shard=due, journal_id=journal_id, **record.proxy._asdict(), **values)


def from_item(item: ProxyItem) -> ProxyRecord:
    """The record of a row; unknown attributes are ignored."""
    values = item.attribute_values
    proxy = Proxy(Protocol(item.protocol), item.host, int(item.port), item.username, item.password)
    nested = {name: values[name].as_dict() for name in ("check", "lease") if values.get(name) is not None}
    record = ProxyRecord(**to_arguments(ProxyRecord, {**values, **nested, "proxy": proxy}))
    return replace(record, lease=replace(record.lease, journal_id=item.journal_id)) if item.journal_id else record


def from_image(image: Mapping[str, Any]) -> ProxyRecord:
    """The record of a stream image (DynamoDB JSON); raises ValueError, KeyError or TypeError if it is not one."""
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
    """The record after `_sighting`."""
    return replace(record, last_seen_at=now, sources=record.sources | {source_id}, tags=record.tags | tags)


def _is_news(record: ProxyRecord, source_id: str, tags: frozenset[str], now: datetime) -> bool:
    if record.status is Status.RETIRED:
        return False
    old = now - record.last_seen_at >= timedelta(seconds=SEEN_SECONDS)
    return old or source_id not in record.sources or not tags <= record.tags
