"""What the pool tells the world, on its EventBridge bus. Each has a JSON schema and a sample in `events/bus/`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from proxypool import aws
from proxypool.telemetry import log

SOURCE = "proxypool"
EVENTS_PER_CALL = 10


class Event(StrEnum):
    """The detail types."""

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
    """Puts one event on the bus. The pool goes on where the bus refuses it: False, and an error in the log."""
    return publish_many(bus, [(event, detail)])


def publish_many(bus: str, told: Sequence[tuple[Event, Mapping[str, Any]]]) -> bool:
    """Puts up to ten events on the bus by one call; False where it refused one, with an error in the log for each."""
    entries = [
        {"EventBusName": bus, "Source": SOURCE, "DetailType": event.value, "Detail": json.dumps(detail)}
        for event, detail in told
    ]
    answer = aws.client("events").put_events(Entries=entries)
    for (event, _), entry in zip(told, answer["Entries"], strict=True):
        if "ErrorCode" in entry:
            log.error("event refused", event_type=event.value, error=entry["ErrorCode"])
    return not answer.get("FailedEntryCount")
