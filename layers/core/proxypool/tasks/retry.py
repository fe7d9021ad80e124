"""Retries of failed queue messages, with backoff, and the stored reason of each failure.

The partial batch response of Lambda only names the failed messages; their visibility timeout determines when they are delivered again.
After the last retry the redrive policy of the queue moves a message to the dead-letter queue; `proxypool dlq list` shows its reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from proxypool import aws, clock
from proxypool.aws import queues
from proxypool.aws.queues import FetchMessage, ScrapeMessage, ValidateMessage
from proxypool.aws.state import StateTable
from proxypool.config.settings import Settings
from proxypool.telemetry import Metric, count_by, log, masked

REASON_TTL_SECONDS = 14 * 86_400  # as long as the dead-letter queue keeps the message
MAX_VISIBILITY_SECONDS = 43_200 - 900  # SQS counts its 12 hours from the receipt, at most one invocation (15 min) ago

M = TypeVar("M", ScrapeMessage, ValidateMessage, FetchMessage)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Queue URL, number of retries, and delay of the first retry, which doubles with each further one."""

    url: str
    retries: int
    delay_seconds: int

    @classmethod
    def from_settings(cls, name: str, settings: Settings) -> RetryPolicy:
        """The policy of "scrape", "validate" or "fetch"."""
        return cls(
            url=settings.need(f"{name}_queue_url"),
            retries=getattr(settings, f"{name}_retries"),
            delay_seconds=getattr(settings, f"{name}_retry_seconds"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery(Generic[M]):
    """A message as received from SQS. `attempt` is its receive count (1, 2, …); `is_last` if no retry follows."""

    message: M
    message_id: str
    receipt: str
    attempt: int
    is_last: bool

    @classmethod
    def read(cls, record: Mapping[str, Any], kind: type[M], policy: RetryPolicy) -> Delivery[M]:
        """Parses a record of a Lambda event; raises MessageError if the body is invalid."""
        attempt = _attempt(record)
        return cls(
            message=queues.decode(record["body"], kind),
            message_id=record["messageId"],
            receipt=record["receiptHandle"],
            attempt=attempt,
            is_last=attempt > policy.retries,
        )


@dataclass(frozen=True, slots=True)
class Retry:
    """The message failed: it is delivered again after the backoff, at least `min_seconds`, until its retries are used up."""

    reason: str
    min_seconds: int = 0


@dataclass(frozen=True, slots=True)
class Hold:
    """The message cannot be handled yet: it is delivered again after `seconds`. Not a failure."""

    seconds: float


def schedule_retry(
    delivery: Delivery[M], retry: Retry, *, policy: RetryPolicy, task: str, state: StateTable, **facts: Any
) -> None:
    """Logs, counts and stores the failure of a message, and sets its visibility timeout: the delay, doubled with each attempt.

    The caller must report the message as failed in any case: after the last retry it becomes visible at once, and SQS moves it
    to the dead-letter queue. `facts` (e.g. source_id) are log fields.
    """
    seconds = 0
    if not delivery.is_last:
        seconds = max(policy.delay_seconds, retry.min_seconds) * 2 ** (delivery.attempt - 1)
    _record_failure(
        delivery.message_id,
        retry.reason,
        task=task,
        attempt=delivery.attempt,
        retrying=not delivery.is_last,
        state=state,
        **facts,
    )
    change_visibility(delivery.receipt, queue_url=policy.url, seconds=seconds)


def give_up(record: Mapping[str, Any], reason: str, *, policy: RetryPolicy, task: str, state: StateTable) -> None:
    """Logs, counts and stores the failure of a message that cannot be decoded."""
    _record_failure(record["messageId"], reason, task=task, attempt=_attempt(record), retrying=False, state=state)
    change_visibility(record["receiptHandle"], queue_url=policy.url, seconds=0)


def change_visibility(receipt: str, *, queue_url: str, seconds: float) -> None:
    """Sets when a failed message is delivered again; the default is the visibility timeout of the queue."""
    try:
        with aws.translate_errors():
            aws.client("sqs").change_message_visibility(
                QueueUrl=queue_url, ReceiptHandle=receipt, VisibilityTimeout=min(round(seconds), MAX_VISIBILITY_SECONDS)
            )
    except aws.AwsError as error:
        log.warning("ChangeMessageVisibility failed", error=str(error))


def reason_name(message_id: str) -> str:
    """The key in the state table of the last failure of a message."""
    return f"reason:{message_id}"


def _attempt(record: Mapping[str, Any]) -> int:
    return int(record.get("attributes", {}).get("ApproximateReceiveCount", 1))


def _record_failure(
    message_id: str, reason: str, *, task: str, attempt: int, retrying: bool, state: StateTable, **facts: Any
) -> None:
    write_line = log.warning if retrying else log.error
    write_line(f"{task} failed", task=task, error=masked(reason), retrying=retrying, attempt=attempt, **facts)
    count_by(Metric.TASKS_FAILED, 1, "task", task)
    failure = {"task": task, "reason": masked(reason), "attempt": attempt, "at": clock.iso(clock.now())}
    try:
        state.put(reason_name(message_id), failure, ttl_seconds=REASON_TTL_SECONDS)
    except Exception as error:  # the reason is for the reader; without it, the batch still has its answer
        log.warning("reason not stored", task=task, error=type(error).__name__)
