"""Records the events on the pool's bus through a queue, and validates each against its schema."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]

SCHEMAS = Path(__file__).parents[2] / "events" / "bus"


@dataclass(frozen=True, slots=True)
class EventRecorder:
    """The events of one bus since its subscription."""

    sqs: Any
    url: str
    _events: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    @classmethod
    def subscribe(cls, bus: str, clients: Callable[[str], Any], name: str = "event-recorder") -> EventRecorder:
        """Subscribes to a bus; `clients` returns the boto3 client of a service."""
        sqs, events = clients("sqs"), clients("events")
        url = str(sqs.create_queue(QueueName=name)["QueueUrl"])
        arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        events.put_rule(Name=name, EventBusName=bus, EventPattern=json.dumps({"source": ["proxypool"]}))
        events.put_targets(Rule=name, EventBusName=bus, Targets=[{"Id": "queue", "Arn": arn}])
        return cls(sqs, url)

    def received(self, event: str) -> list[dict[str, Any]]:
        """The details of all events of this type so far; raises jsonschema.ValidationError for one that violates its schema."""
        while messages := self.sqs.receive_message(QueueUrl=self.url, MaxNumberOfMessages=10).get("Messages", []):
            for message in messages:
                self.sqs.delete_message(QueueUrl=self.url, ReceiptHandle=message["ReceiptHandle"])
                envelope = json.loads(message["Body"])
                schema = json.loads((SCHEMAS / f"{envelope['detail-type']}.schema.json").read_text())
                jsonschema.validate(envelope["detail"], schema)
                self._events.append((envelope["detail-type"], envelope["detail"]))
        return [detail for name, detail in self._events if name == event]
