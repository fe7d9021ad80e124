"""Dead letters: what lies in the dead-letter queues, why, and back to work with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from proxypool import aws
from proxypool.retry import reason_name
from proxypool.state import State

HIDDEN_SECONDS = 30  # how long a letter in hand is hidden from others
MESSAGES_PER_CALL = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A queue, its dead-letter queue, and the table that knows the reasons."""

    name: str
    url: str
    dead_letter_url: str
    state: State


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """A message that failed for good; `reason` is what its last try left, "" where it left none."""

    queue: Queue
    message_id: str
    body: str
    reason: str
    receipt: str


def queues_of(outputs: Mapping[str, str]) -> list[Queue]:
    """The queues that a stack's outputs name."""
    state = State(outputs["StateTable"])
    return [
        Queue(
            name=name,
            url=outputs[f"{logical}QueueUrl"],
            dead_letter_url=outputs[f"{logical}DeadLetterQueueUrl"],
            state=state,
        )
        for name, logical in (("scrape", "Scrape"), ("validate", "Validate"), ("fetch", "Fetch"))
    ]


def peek(queues: Sequence[Queue], *, most: int = 100) -> Iterator[Letter]:
    """Up to `most` letters per queue, put back as they were."""
    for queue in queues:
        letters = list(_receive(queue, most))
        for letter in letters:
            aws.client("sqs").change_message_visibility(
                QueueUrl=queue.dead_letter_url, ReceiptHandle=letter.receipt, VisibilityTimeout=0
            )
        yield from letters


def redrive(queues: Sequence[Queue], *, most: int = 1_000) -> int:
    """Sends up to `most` letters per queue back to where they came from; returns how many. A crash may send one twice: harmless."""
    count = 0
    for queue in queues:
        for letter in _receive(queue, most):
            sqs = aws.client("sqs")
            sqs.send_message(QueueUrl=queue.url, MessageBody=letter.body, MessageGroupId="redrive")
            sqs.delete_message(QueueUrl=queue.dead_letter_url, ReceiptHandle=letter.receipt)
            count += 1
    return count


def as_json(letter: Letter) -> dict[str, Any]:
    """A letter as an answer shows it. Bodies hold ids, never secrets."""
    return {"queue": letter.queue.name, "message_id": letter.message_id, "body": letter.body, "reason": letter.reason}


def _receive(queue: Queue, most: int) -> Iterator[Letter]:
    seen: set[str] = set()
    while len(seen) < most:
        found = aws.client("sqs").receive_message(
            QueueUrl=queue.dead_letter_url,
            MaxNumberOfMessages=min(MESSAGES_PER_CALL, most - len(seen)),
            VisibilityTimeout=HIDDEN_SECONDS,
        )
        fresh = [message for message in found.get("Messages", []) if message["MessageId"] not in seen]
        if not fresh:
            return
        for message in fresh:
            seen.add(message["MessageId"])
            kept = queue.state.get(reason_name(message["MessageId"])) or {}
            yield Letter(
                queue=queue,
                message_id=message["MessageId"],
                body=message["Body"],
                reason=str(kept.get("reason", "")),
                receipt=message["ReceiptHandle"],
            )
