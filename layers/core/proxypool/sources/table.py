"""The sources table. A changing write names its attributes and needs the row: a deleted source does not come back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum
from typing import Any

from pynamodb.attributes import BooleanAttribute, JSONAttribute, NumberAttribute, UnicodeAttribute, UnicodeSetAttribute
from pynamodb.exceptions import DeleteError, PutError, UpdateError
from pynamodb.models import Model

from proxypool import clock
from proxypool.proxies.proxy import Kind, Protocol
from proxypool.sources.record import Source
from proxypool.table import Unbound, bind


class SourceItem(Model):
    """A row; instants are epoch seconds."""

    class Meta(Unbound):
        """Bound at run time."""

    source_id = UnicodeAttribute(hash_key=True)
    name = UnicodeAttribute(null=True)
    url = UnicodeAttribute(null=True)
    inline = UnicodeAttribute(null=True)
    path = UnicodeAttribute(null=True)
    allow_http = BooleanAttribute(null=True)
    parser = UnicodeAttribute(null=True)
    protocol = UnicodeAttribute(null=True)
    kind = UnicodeAttribute(null=True)
    tags = UnicodeSetAttribute(null=True)
    enabled = BooleanAttribute(null=True)
    schedule = UnicodeAttribute(null=True)
    created_at = NumberAttribute()
    etag = UnicodeAttribute(null=True)
    last_scraped_at = NumberAttribute(null=True)
    last_success_at = NumberAttribute(null=True)
    not_before_at = NumberAttribute(null=True)
    stale_told_at = NumberAttribute(null=True)
    rows = NumberAttribute(null=True)
    valid = NumberAttribute(null=True)
    new = NumberAttribute(null=True)
    rejected = JSONAttribute(null=True)
    consecutive_failures = NumberAttribute(null=True)
    last_error = UnicodeAttribute(null=True)


@dataclass(frozen=True, slots=True)
class SourceTable:
    """All access to the sources table. Reads of one source are consistent."""

    table_name: str

    def get(self, source_id: str) -> Source | None:
        """One source; None where there is none."""
        try:
            return _from_item(self._model.get(source_id, consistent_read=True))
        except SourceItem.DoesNotExist:
            return None

    def list(self) -> Iterator[Source]:
        """All sources, in no order."""
        return map(_from_item, self._model.scan())

    def put_new(self, source: Source) -> bool:
        """Writes a source whose id is free; False where it is taken."""
        values = {field.name: _packed(getattr(source, field.name)) for field in fields(Source)}
        try:
            self._model(**values).save(condition=SourceItem.source_id.does_not_exist())
        except PutError as error:
            if error.cause_response_code == "ConditionalCheckFailedException":
                return False
            raise
        return True

    def update(self, source_id: str, **changes: Any) -> Source | None:
        """Sets the named fields of `Source` (None clears) and returns the whole; None where there is no such source."""
        actions = []
        for name, value in changes.items():
            attribute, packed = getattr(SourceItem, name), _packed(value)
            actions.append(attribute.remove() if packed is None else attribute.set(packed))
        item = self._model(source_id)
        try:
            item.update(actions=actions, condition=SourceItem.source_id.exists())
        except UpdateError as error:
            if error.cause_response_code == "ConditionalCheckFailedException":
                return None
            raise
        return _from_item(item)

    def delete(self, source_id: str) -> bool:
        """Removes a source; its proxies stay. False where there is none."""
        try:
            self._model(source_id).delete(condition=SourceItem.source_id.exists())
        except DeleteError as error:
            if error.cause_response_code == "ConditionalCheckFailedException":
                return False
            raise
        return True

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
    if value == "" or value == {}:
        return None
    return dict(value) if hasattr(value, "items") else value


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
    return Source(**values)
