"""The state table, a key-value store: operator settings, gauges, task results, cursors, counters, flags, the epoch."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pynamodb.attributes import JSONAttribute, NumberAttribute, UnicodeAttribute
from pynamodb.models import Model

from proxypool import clock
from proxypool.aws.dynamodb import bind_table, get_item, try_write

SETTINGS, GAUGES, SIZES, EPOCH, REBUILD, FROZEN = "settings", "gauges", "sizes", "epoch", "rebuild", "frozen"
REBUILD_WANTED = "rebuild_wanted"  # the operator requested a rebuild of the index
SETTINGS_CACHE_SECONDS = 30  # maximum age of the operator settings that a function uses


class StateItem(Model):
    """A row: a JSON value and counters under a name; `expires_at` in epoch seconds."""

    name = UnicodeAttribute(hash_key=True)
    value = JSONAttribute(null=True)
    number = NumberAttribute(null=True)
    asked = NumberAttribute(null=True)
    failed = NumberAttribute(null=True)
    expires_at = NumberAttribute(attr_name="ttl", null=True)


@dataclass(frozen=True, slots=True)
class StateTable:
    """Access to the state table. Reads are consistent and treat an item past its TTL as absent."""

    table_name: str

    def get(self, name: str) -> Any:
        """The value, or None if it does not exist or has expired."""
        item = get_item(self._model, name)
        return None if item is None or _is_expired(item) else item.value

    def get_many(self, names: Iterable[str]) -> dict[str, Any]:
        """The existing values of up to 100 names, read in one call."""
        items = self._model.batch_get(list(names), consistent_read=True)
        return {item.name: item.value for item in items if not _is_expired(item)}

    def put(self, name: str, value: Any, *, ttl_seconds: int | None = None) -> None:
        """Sets the value; it expires after `ttl_seconds`."""
        self._model(name, value=value, expires_at=_expiry(ttl_seconds)).save()

    def put_if_absent(self, name: str, value: Any, *, ttl_seconds: int | None = None) -> bool:
        """Sets the value if it does not exist or has expired; returns False otherwise."""
        item = self._model(name, value=value, expires_at=_expiry(ttl_seconds))
        is_free = StateItem.name.does_not_exist() | (StateItem.expires_at <= clock.epoch(clock.now()))
        return try_write(lambda: item.save(condition=is_free))

    def add(self, name: str, amount: float, *, ttl_seconds: int | None = None) -> float:
        """Adds to a counter and returns its new value."""
        item = self._model(name)
        actions: list[Any] = [StateItem.number.add(amount)]
        if ttl_seconds is not None:
            actions.append(StateItem.expires_at.set(clock.epoch(clock.now()) + ttl_seconds))
        item.update(actions=actions)
        return float(item.number or 0)

    def tally(self, name: str, *, asked: int, failed: int, ttl_seconds: int) -> tuple[int, int]:
        """Adds to both counters of a sweep's item and returns their new values."""
        item = self._model(name)
        expires_at = clock.epoch(clock.now()) + ttl_seconds
        item.update(
            actions=[StateItem.asked.add(asked), StateItem.failed.add(failed), StateItem.expires_at.set(expires_at)]
        )
        return int(item.asked or 0), int(item.failed or 0)

    def number(self, name: str) -> float:
        """The value of a counter, 0 if it does not exist."""
        item = get_item(self._model, name)
        return 0.0 if item is None or _is_expired(item) else float(item.number or 0)

    def numbers(self, names: Iterable[str]) -> dict[str, float]:
        """The existing counters of these names, read 100 per call."""
        items = self._model.batch_get(list(names), consistent_read=True)
        return {item.name: float(item.number or 0) for item in items if not _is_expired(item)}

    def delete(self, name: str) -> None:
        """Deletes an item; idempotent."""
        self._model(name).delete()

    @property
    def _model(self) -> type[StateItem]:
        return bind_table(StateItem, self.table_name)


_settings_cache: dict[str, tuple[float, dict[str, Any]]] = {}


def operator_settings(state: StateTable) -> dict[str, Any]:
    """The settings of PATCH /settings, cached for 30 seconds."""
    loaded_at, value = _settings_cache.get(state.table_name, (-SETTINGS_CACHE_SECONDS, {}))
    if time.monotonic() - loaded_at >= SETTINGS_CACHE_SECONDS:
        value = state.get(SETTINGS) or {}
        _settings_cache[state.table_name] = (time.monotonic(), value)
    return value


def is_paused(state: StateTable) -> bool:
    """True if the operator paused the pool (kill switch)."""
    return bool(operator_settings(state).get("paused"))


def _is_expired(item: StateItem) -> bool:
    return item.expires_at is not None and item.expires_at <= clock.epoch(clock.now())


def _expiry(ttl_seconds: int | None) -> int | None:
    return None if ttl_seconds is None else clock.epoch(clock.now()) + ttl_seconds
