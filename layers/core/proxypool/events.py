"""What the pool tells the world, on its EventBridge bus. Each has a JSON schema and a sample in `events/bus/`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from proxypool import aws
from proxypool.telemetry import log

SOURCE = "proxypool"


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
    entry = {"EventBusName": bus, "Source": SOURCE, "DetailType": event.value, "Detail": json.dumps(detail)}
    answer = aws.client("events").put_events(Entries=[entry])
    if answer.get("FailedEntryCount"):
        log.error("event refused", event_type=event.value, error=answer["Entries"][0].get("ErrorCode", ""))
        return False
    return True
