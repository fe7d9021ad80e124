"""The sources table. A changing write names its attributes and needs the row: a deleted source does not come back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from pynamodb.attributes import BooleanAttribute, JSONAttribute, NumberAttribute, UnicodeAttribute, UnicodeSetAttribute
from pynamodb.expressions.condition import Condition
from pynamodb.models import Model

from proxypool import clock
from proxypool.aws.dynamodb import bind, find, try_write
from proxypool.proxies.proxy import Kind, Protocol
from proxypool.sources.record import Source


class SourceItem(Model):
    """A row; instants are epoch seconds."""

    source_id = UnicodeAttribute(hash_key=True)
    name = UnicodeAttribute(null=True)
    url = UnicodeAttribute(null=True)
    inline = UnicodeAttribute(null=True)
    s3 = UnicodeAttribute(null=True)
    path = UnicodeAttribute(null=True)
    allow_http = BooleanAttribute(null=True)
    allow_private = BooleanAttribute(null=True)
    expect_one_network = BooleanAttribute(null=True)
    headers = JSONAttribute(null=True)
    secret = UnicodeAttribute(null=True)
    timeout_seconds = NumberAttribute(null=True)
    parser = UnicodeAttribute(null=True)
    protocol = UnicodeAttribute(null=True)
    kind = UnicodeAttribute(null=True)
    slots = NumberAttribute(null=True)
    tags = UnicodeSetAttribute(null=True)
    enabled = BooleanAttribute(null=True)
    schedule = UnicodeAttribute(null=True)
    created_at = NumberAttribute()
    claim = NumberAttribute(default=0)
    continues = UnicodeAttribute(null=True)
    etag = UnicodeAttribute(null=True)
    last_modified = UnicodeAttribute(null=True)
    body_hash = UnicodeAttribute(null=True)
    read_at = NumberAttribute(null=True)
    last_scraped_at = NumberAttribute(null=True)
    last_success_at = NumberAttribute(null=True)
    not_before_at = NumberAttribute(null=True)
    stale_told_at = NumberAttribute(null=True)
    rows = NumberAttribute(null=True)
    valid = NumberAttribute(null=True)
    new = NumberAttribute(null=True)
    rejected = JSONAttribute(null=True)
    held_back = JSONAttribute(null=True)
    new_on = UnicodeAttribute(null=True)
    new_today = NumberAttribute(null=True)
    exclusive = NumberAttribute(null=True)
    aged = NumberAttribute(null=True)
    alive = NumberAttribute(null=True)
    usual = NumberAttribute(null=True)
    successes = NumberAttribute(null=True)
    suspicions = NumberAttribute(null=True)
    suspicion = UnicodeAttribute(null=True)
    barren = NumberAttribute(null=True)
    trend = JSONAttribute(null=True)
    consecutive_failures = NumberAttribute(null=True)
    last_error = UnicodeAttribute(null=True)


@dataclass(frozen=True, slots=True)
class SourceTable:
    """All access to the sources table. Reads of one source are consistent."""

    table_name: str

    def get(self, source_id: str) -> Source | None:
        """One source; None where there is none."""
        item = find(self._model, source_id)
        return None if item is None else _from_item(item)

    def list(self) -> Iterator[Source]:
        """All sources, in no order."""
        return map(_from_item, self._model.scan())

    def put_new(self, source: Source) -> bool:
        """Writes a source whose id is free; False where it is taken."""
        values = {field.name: _packed(getattr(source, field.name)) for field in fields(Source)}
        item = self._model(**values)
        return try_write(lambda: item.save(condition=SourceItem.source_id.does_not_exist()))

    def update(self, source_id: str, **changes: Any) -> Source | None:
        """Sets the named fields of `Source` (None clears) and returns the whole; None where there is no such source."""
        return self._change(source_id, SourceItem.source_id.exists(), changes)

    def claim(self, source_id: str, now: datetime, *, seconds: int) -> Source | None:
        """Takes the source for one run, for so long at most; None where another run has it, or it is gone."""
        free = SourceItem.claim.does_not_exist() | (SourceItem.claim <= clock.epoch_ms(now))
        until = clock.epoch_ms(now + timedelta(seconds=seconds))
        return self._change(source_id, SourceItem.source_id.exists() & free, {"claim": until})

    def finish(self, source: Source, **changes: Any) -> bool:
        """Writes what the run that holds `source.claim` found, and ends the claim; False where the claim was lost or an edit ended it."""
        return self._change(source.source_id, SourceItem.claim == source.claim, {**changes, "claim": 0}) is not None

    def release(self, source_id: str, claim: int) -> None:
        """Ends a claim without a result, so that the next message finds the source free."""
        self._change(source_id, SourceItem.claim == claim, {"claim": 0})

    def _change(self, source_id: str, condition: Condition, changes: Mapping[str, Any]) -> Source | None:
        actions = []
        for name, value in changes.items():
            attribute, packed = getattr(SourceItem, name), _packed(value)
            actions.append(attribute.remove() if packed is None else attribute.set(packed))
        item = self._model(source_id)
        return _from_item(item) if try_write(lambda: item.update(actions=actions, condition=condition)) else None

    def delete(self, source_id: str) -> bool:
        """Removes a source; its proxies stay. False where there is none."""
        item = self._model(source_id)
        return try_write(lambda: item.delete(condition=SourceItem.source_id.exists()))

    @property
    def _model(self) -> type[SourceItem]:
        return bind(SourceItem, self.table_name)


def _packed(value: Any) -> Any:
    """A field as its attribute; None where it says nothing."""
    if isinstance(value, datetime):
        return clock.epoch(value)
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, frozenset):
        return set(value) or None
    if value in ("", {}, ()):
        return None
    if isinstance(value, tuple):
        return list(value)
    return dict(value) if isinstance(value, Mapping) else value


def _from_item(item: SourceItem) -> Source:
    values: dict[str, Any] = {}
    for field in fields(Source):
        value = getattr(item, field.name)
        if value is None:
            continue
        if field.name.endswith("_at"):
            value = clock.from_epoch(value)
        elif field.type == "int":
            value = int(value)
        values[field.name] = value
    if "protocol" in values:
        values["protocol"] = Protocol(values["protocol"])
    if "kind" in values:
        values["kind"] = Kind(values["kind"])
    values["tags"] = frozenset(values.get("tags", ()))
    values |= {name: tuple(values[name]) for name in ("headers", "trend") if name in values}
    return Source(**values)
