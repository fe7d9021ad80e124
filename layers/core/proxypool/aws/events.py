"""Events on the pool's EventBridge bus. Each has a JSON schema with an example in `events/bus/`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from proxypool import aws
from proxypool.telemetry import log

EVENT_SOURCE = "proxypool"
EVENTS_PER_CALL = 10


class Event(StrEnum):
    """The events by their detail type."""

    NEW_BATCH = "proxy.new_batch"
    POOL_LOW = "proxy.pool_low"
    SOURCE_FAILED = "source.failed"
    SOURCE_STALE = "source.stale"
    SOURCE_SUSPECT = "source.suspect"
    JUDGE_DOWN = "judge.down"
    SCORES_FROZEN = "scores.frozen"
    JOB_COMPLETED = "job.completed"
    JOB_FAILED = "job.failed"


def publish(bus: str, event: Event, detail: Mapping[str, Any]) -> bool:
    """Publishes one event. False if the bus rejected it, which is logged as an error."""
    return publish_many(bus, [(event, detail)])


def publish_many(bus: str, events: Sequence[tuple[Event, Mapping[str, Any]]]) -> bool:
    """Publishes up to ten events in one call. False if the bus rejected one; each rejected one is logged as an error."""
    entries = [
        {"EventBusName": bus, "Source": EVENT_SOURCE, "DetailType": event.value, "Detail": json.dumps(detail)}
        for event, detail in events
    ]
    response = aws.client("events").put_events(Entries=entries)
    for (event, _), entry in zip(events, response["Entries"], strict=True):
        if "ErrorCode" in entry:
            log.error("event rejected", event_type=event.value, error=entry["ErrorCode"])
    return not response.get("FailedEntryCount")
