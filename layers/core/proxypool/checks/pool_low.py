"""Publishes proxy.pool_low once when the number of ready proxies falls below the threshold, again only after it recovered."""

from __future__ import annotations

from typing import Final

from proxypool import clock
from proxypool.aws.events import Event, publish
from proxypool.aws.state import GAUGES, StateTable
from proxypool.config.settings import Settings

ALL_PROXIES: Final = "all"  # name of the unfiltered count


def publish_pool_low(state: StateTable, settings: Settings) -> None:
    """Reads the gauges (at most a minute old) and publishes one event for each filter that newly fell below the threshold."""
    gauges = state.get(GAUGES)
    if not gauges:
        return
    ready_counts = {ALL_PROXIES: int(gauges["ready"])} | {
        name: int(count) for name, count in gauges.get("ready_by", {}).items()
    }
    for filter_name, ready in ready_counts.items():
        _publish_once(state, settings, filter_name, ready)


def _publish_once(state: StateTable, settings: Settings, filter_name: str, ready: int) -> None:
    threshold = settings.pool_low_mark
    key, now = f"low:{filter_name}:{threshold}", clock.iso(clock.now())
    if ready >= threshold:
        state.delete(key)
    elif state.put_if_absent(key, now):
        detail = {"filter": filter_name, "ready": ready, "threshold": threshold, "at": now}
        publish(settings.need("event_bus"), Event.POOL_LOW, detail)
