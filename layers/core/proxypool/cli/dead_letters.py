"""The dead-letter queues: their messages, the reason of each failure, and redrive."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from proxypool import aws
from proxypool.aws.state import StateTable
from proxypool.tasks.retry import reason_name

VISIBILITY_SECONDS = 30  # how long a received message is hidden from other consumers
MESSAGES_PER_CALL = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A queue, its dead-letter queue, and the table with the reasons."""

    name: str
    url: str
    dead_letter_url: str
    state: StateTable


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A message that failed permanently; `reason` is that of its last attempt, "" if unknown."""

    queue: Queue
    message_id: str
    body: str
    reason: str
    receipt: str


def queues_from(outputs: Mapping[str, str]) -> list[Queue]:
    """The queues of a stack, from its outputs."""
    state = StateTable(outputs["StateTable"])
    return [
        Queue(
            name=name,
            url=outputs[f"{logical}QueueUrl"],
            dead_letter_url=outputs[f"{logical}DeadLetterQueueUrl"],
            state=state,
        )
        for name, logical in (("scrape", "Scrape"), ("validate", "Validate"), ("fetch", "Fetch"))
    ]


def peek(queues: Sequence[Queue], *, limit: int = 100) -> Iterator[DeadLetter]:
    """Up to `limit` messages per queue; they stay in it."""
    for queue in queues:
        messages = list(_receive(queue, limit))
        for message in messages:
            aws.client("sqs").change_message_visibility(
                QueueUrl=queue.dead_letter_url, ReceiptHandle=message.receipt, VisibilityTimeout=0
            )
        yield from messages


def redrive(queues: Sequence[Queue], *, limit: int = 1_000) -> int:
    """Sends up to `limit` messages per queue back to it; returns how many. A crash may send one twice, which is harmless."""
    count = 0
    for queue in queues:
        for message in _receive(queue, limit):
            sqs = aws.client("sqs")
            sqs.send_message(QueueUrl=queue.url, MessageBody=message.body, MessageGroupId="redrive")
            sqs.delete_message(QueueUrl=queue.dead_letter_url, ReceiptHandle=message.receipt)
            count += 1
    return count


def as_json(message: DeadLetter) -> dict[str, Any]:
    """A message for the command line. Bodies contain ids, but no secrets."""
    return {
        "queue": message.queue.name,
        "message_id": message.message_id,
        "body": message.body,
        "reason": message.reason,
    }


def _receive(queue: Queue, limit: int) -> Iterator[DeadLetter]:
    seen: set[str] = set()
    while len(seen) < limit:
        response = aws.client("sqs").receive_message(
            QueueUrl=queue.dead_letter_url,
            MaxNumberOfMessages=min(MESSAGES_PER_CALL, limit - len(seen)),
            VisibilityTimeout=VISIBILITY_SECONDS,
        )
        fresh = [message for message in response.get("Messages", []) if message["MessageId"] not in seen]
        if not fresh:
            return
        for message in fresh:
            seen.add(message["MessageId"])
            item = queue.state.get(reason_name(message["MessageId"])) or {}
            yield DeadLetter(
                queue=queue,
                message_id=message["MessageId"],
                body=message["Body"],
                reason=str(item.get("reason", "")),
                receipt=message["ReceiptHandle"],
            )
