"""Telling that the pool runs low: once when the number of ready proxies falls under the mark, again only after it rose."""

from __future__ import annotations

from proxypool import clock
from proxypool.events import Event, publish
from proxypool.settings import Settings
from proxypool.state import GAUGES, State


def tell_when_low(state: State, settings: Settings) -> None:
    """Reads the gauges (a minute old at most) and publishes proxy.pool_low where the mark was crossed downwards."""
    gauges = state.get(GAUGES)
    if not gauges:
        return
    ready, mark = int(gauges["ready"]), settings.pool_low_mark
    name = f"low:{mark}"
    if ready >= mark:
        state.delete(name)
    elif state.put_if_absent(name, clock.iso(clock.now())):
        publish(settings.need("event_bus"), Event.POOL_LOW, {"ready": ready, "mark": mark})
