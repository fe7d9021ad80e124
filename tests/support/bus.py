"""An ear on the event bus: a queue that gets all that the pool tells the world, each held against its schema."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]

SCHEMAS = Path(__file__).parents[2] / "events" / "bus"


@dataclass(frozen=True, slots=True)
class Ear:
    """Hears one bus from now on."""

    sqs: Any
    url: str
    _heard: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    @classmethod
    def on(cls, bus: str, clients: Callable[[str], Any], name: str = "ear") -> Ear:
        """Puts an ear on a bus; `clients` gives the client of a service."""
        sqs, events = clients("sqs"), clients("events")
        url = str(sqs.create_queue(QueueName=name)["QueueUrl"])
        arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        events.put_rule(Name=name, EventBusName=bus, EventPattern=json.dumps({"source": ["proxypool"]}))
        events.put_targets(Rule=name, EventBusName=bus, Targets=[{"Id": "ear", "Arn": arn}])
        return cls(sqs, url)

    def heard(self, event: str) -> list[dict[str, Any]]:
        """The details of all events of that type so far; jsonschema.ValidationError where one is not as it is documented."""
        while messages := self.sqs.receive_message(QueueUrl=self.url, MaxNumberOfMessages=10).get("Messages", []):
            for message in messages:
                self.sqs.delete_message(QueueUrl=self.url, ReceiptHandle=message["ReceiptHandle"])
                told = json.loads(message["Body"])
                schema = json.loads((SCHEMAS / f"{told['detail-type']}.schema.json").read_text())
                jsonschema.validate(told["detail"], schema)
                self._heard.append((told["detail-type"], told["detail"]))
        return [detail for name, detail in self._heard if name == event]
