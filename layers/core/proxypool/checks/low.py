"""Telling that the pool runs low: once when the number of ready proxies falls under the mark, again only after it rose."""

from __future__ import annotations

from typing import Final

from proxypool import clock
from proxypool.events import Event, publish
from proxypool.settings import Settings
from proxypool.state import GAUGES, State

WHOLE: Final = "all"


def tell_when_low(state: State, settings: Settings) -> None:
    """Reads the gauges (a minute old at most) and publishes proxy.pool_low for each filter whose mark was crossed downwards."""
    gauges = state.get(GAUGES)
    if not gauges:
        return
    ready = {WHOLE: int(gauges["ready"])} | {name: int(number) for name, number in gauges.get("ready_by", {}).items()}
    for name, number in ready.items():
        _tell(state, settings, name, number)


def _tell(state: State, settings: Settings, name: str, ready: int) -> None:
    mark = settings.pool_low_mark
    crossed, at = f"low:{name}:{mark}", clock.iso(clock.now())
    if ready >= mark:
        state.delete(crossed)
    elif state.put_if_absent(crossed, at):
        publish(settings.need("event_bus"), Event.POOL_LOW, {"filter": name, "ready": ready, "mark": mark, "at": at})
