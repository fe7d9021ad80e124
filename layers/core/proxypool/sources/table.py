"""The sources table. Updates are conditional and require the row: they never recreate a deleted source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pynamodb.attributes import NumberAttribute, UnicodeAttribute
from pynamodb.expressions.condition import Condition
from pynamodb.models import Model

from proxypool import clock
from proxypool.aws.dynamodb import bind_table, get_item, try_write, with_attributes
from proxypool.http.codec import attributes
from proxypool.http.fields import to_arguments, to_attributes, to_row
from proxypool.sources.record import Source


@with_attributes(attributes(Source))
class SourceItem(Model):
    """A row: the key, and an attribute for each field of `Source`."""

    source_id = UnicodeAttribute(hash_key=True)
    claim: NumberAttribute


@dataclass(frozen=True, slots=True)
class SourceTable:
    """All access to the sources table. Reads of one source are consistent."""

    table_name: str

    def get(self, source_id: str) -> Source | None:
        """One source, or None."""
        item = get_item(self._model, source_id)
        return None if item is None else _from_item(item)

    def list(self) -> Iterator[Source]:
        """All sources, unordered."""
        return map(_from_item, self._model.scan())

    def put_new(self, source: Source) -> bool:
        """Writes a new source; False if its id is taken."""
        item = self._model(**to_row(source))
        return try_write(lambda: item.save(condition=SourceItem.source_id.does_not_exist()))

    def update(self, source_id: str, **changes: Any) -> Source | None:
        """Sets the named fields of `Source` (None clears one) and returns the source; None if it does not exist."""
        return self._change(source_id, SourceItem.source_id.exists(), changes)

    def claim(self, source_id: str, now: datetime, *, seconds: int) -> Source | None:
        """Claims the source for one run, for at most `seconds`; None if another run holds it, or it does not exist."""
        free = SourceItem.claim.does_not_exist() | (SourceItem.claim <= clock.epoch_ms(now))
        until = clock.epoch_ms(now + timedelta(seconds=seconds))
        return self._change(source_id, SourceItem.source_id.exists() & free, {"claim": until})

    def finish(self, source: Source, **changes: Any) -> bool:
        """Writes the results of the run that holds `source.claim` and ends the claim; False if the claim has expired or an edit ended it."""
        return self._change(source.source_id, SourceItem.claim == source.claim, {**changes, "claim": 0}) is not None

    def release(self, source_id: str, claim: int) -> None:
        """Ends a claim without a result, so that the next message can claim the source."""
        self._change(source_id, SourceItem.claim == claim, {"claim": 0})

    def delete(self, source_id: str) -> bool:
        """Deletes a source; its proxies stay. False if it does not exist."""
        item = self._model(source_id)
        return try_write(lambda: item.delete(condition=SourceItem.source_id.exists()))

    def _change(self, source_id: str, condition: Condition, changes: Mapping[str, Any]) -> Source | None:
        item, actions = self._model(source_id), []
        for name, value in to_attributes(Source, changes).items():
            attribute = getattr(SourceItem, name)
            actions.append(attribute.remove() if value is None else attribute.set(value))
        return _from_item(item) if try_write(lambda: item.update(actions=actions, condition=condition)) else None

    @property
    def _model(self) -> type[SourceItem]:
        return bind_table(SourceItem, self.table_name)


def _from_item(item: SourceItem) -> Source:
    return Source(**to_arguments(Source, item.attribute_values))
