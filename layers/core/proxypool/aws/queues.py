"""The messages of the three SQS queues: versioned JSON, sent in batches of ten."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any, TypeVar

from proxypool import aws
from proxypool.errors import MessageError, ProxyPoolError

MESSAGE_VERSION = 1
MESSAGES_PER_CALL = 10
MAX_DELAY_SECONDS = 900
MAX_TEXT_BYTES = 1_024  # a key of S3; a job's key has less
MAX_NUMBER = 2**53
RECHECK_GROUP = "recheck"
JOBS_GROUP = "jobs"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrapeMessage:
    """Scrape this source; with `key`, continue at `offset` of the stored copy of its list."""

    source_id: str
    key: str = ""
    offset: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidateMessage:
    """Check this proxy, if its row still has this `next_check_at` (epoch seconds); stale and duplicate messages are ignored."""

    proxy_id: str
    next_check_at: int
    sweep_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchMessage:
    """Run this job, if it is still queued. Contains only the key of its row, no secrets."""

    job_key: str


Message = ScrapeMessage | ValidateMessage | FetchMessage
_T = TypeVar("_T", ScrapeMessage, ValidateMessage, FetchMessage)


class SendFailed(ProxyPoolError):
    """The queue rejected the messages in `failed`."""

    def __init__(self, failed: Sequence[Message]) -> None:
        super().__init__(f"{len(failed)} messages were not sent")
        self.failed = failed


def encode(message: Message) -> str:
    """The message as a message body."""
    return json.dumps({"v": MESSAGE_VERSION, **asdict(message)}, separators=(",", ":"))


def decode(body: str, kind: type[_T]) -> _T:
    """Parses a message body; unknown members are ignored. Raises MessageError."""
    try:
        value = json.loads(body)
    except (ValueError, TypeError, RecursionError) as error:
        raise MessageError("not JSON") from error
    if not isinstance(value, dict):
        raise MessageError("not an object")
    if value.get("v") != MESSAGE_VERSION:
        raise MessageError("unknown version")
    values: dict[str, Any] = {}
    for field in fields(kind):
        expected = {"str": str, "int": int}[str(field.type)]
        item = value.get(field.name, field.default)
        if not isinstance(item, expected) or isinstance(item, bool):
            raise MessageError(f"field {field.name} is missing or has another type")
        if not _is_in_range(item, is_required=field.default is MISSING):
            raise MessageError(f"field {field.name} is empty, too long or out of range")
        values[field.name] = item
    return kind(**values)


def _is_in_range(value: object, *, is_required: bool) -> bool:
    """Whether DynamoDB accepts the value in a key: one invalid key fails the whole call, and with it all other messages."""
    if isinstance(value, int):
        return 0 <= value <= MAX_NUMBER
    try:
        return is_required <= len(str(value).encode()) <= MAX_TEXT_BYTES
    except UnicodeEncodeError:  # a lone surrogate
        return False


def send(queue_url: str, messages: Iterable[Message], *, group: str, delay_seconds: int = 0) -> int:
    """Sends messages, ten per call; returns their number. `group` is the message group ID that fair queues balance by.

    Rejected messages are sent again once; raises SendFailed with those that are rejected twice.
    """
    pending = list(messages)
    failed: list[Message] = []
    for start in range(0, len(pending), MESSAGES_PER_CALL):
        page = pending[start : start + MESSAGES_PER_CALL]
        for _ in range(2):
            page = _send_page(queue_url, page, group, min(delay_seconds, MAX_DELAY_SECONDS))
            if not page:
                break
        failed += page
    if failed:
        raise SendFailed(failed)
    return len(pending)


def approximate_message_count(queue_url: str) -> int:
    """The approximate number of messages in the queue, delayed ones included."""
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesDelayed"]
    attributes: Mapping[str, str] = aws.client("sqs").get_queue_attributes(QueueUrl=queue_url, AttributeNames=names)[
        "Attributes"
    ]
    return sum(int(attributes.get(name, 0)) for name in names)


def _send_page(queue_url: str, page: Sequence[Message], group: str, delay_seconds: int) -> list[Message]:
    entries = [
        {"Id": str(index), "MessageBody": encode(message), "MessageGroupId": group, "DelaySeconds": delay_seconds}
        for index, message in enumerate(page)
    ]
    response = aws.client("sqs").send_message_batch(QueueUrl=queue_url, Entries=entries)
    return [page[int(entry["Id"])] for entry in response.get("Failed", [])]
