"""When a failed message of a queue comes again, and where its reason is kept.

Lambda's partial batch response only says which messages failed; when they come again is a matter of their visibility. After the last
retry the queue's redrive policy moves a message to the dead-letter queue, where `proxypool dlq list` shows its reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from proxypool import aws, clock
from proxypool.aws import queues
from proxypool.aws.queues import FetchMessage, ScrapeMessage, ValidateMessage
from proxypool.aws.state import State
from proxypool.config.settings import Settings
from proxypool.telemetry import Metric, count_by, log, masked

REASON_TTL_SECONDS = 14 * 86_400  # as long as the dead-letter queue keeps the message
MAX_VISIBILITY_SECONDS = (
    43_200 - 900
)  # SQS counts its 12 hours from the receipt, which is a Lambda's run (15 min) ago at most

M = TypeVar("M", ScrapeMessage, ValidateMessage, FetchMessage)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """A queue, how often a message is retried, and the delay of the first retry (doubling)."""

    url: str
    retries: int
    delay_seconds: int

    @classmethod
    def of_queue(cls, name: str, settings: Settings) -> RetryPolicy:
        """The policy of "scrape", "validate" or "fetch"."""
        return cls(
            url=settings.need(f"{name}_queue_url"),
            retries=getattr(settings, f"{name}_retries"),
            delay_seconds=getattr(settings, f"{name}_retry_seconds"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery(Generic[M]):
    """A message as SQS delivered it, for the `attempt`-th time (1, 2, …); `is_last` if no retry follows."""

    message: M
    message_id: str
    receipt: str
    attempt: int
    is_last: bool

    @classmethod
    def read(cls, record: Mapping[str, Any], kind: type[M], policy: RetryPolicy) -> Delivery[M]:
        """The delivery in a record of a Lambda event; raises MessageError where the body is no such message."""
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
    """The message failed: it comes again after the queue's delay, at least `min_seconds`, while it has retries left."""

    reason: str
    min_seconds: int = 0


@dataclass(frozen=True, slots=True)
class Hold:
    """The message cannot be handled yet: it comes again after so many seconds. That is no failure."""

    seconds: float


def schedule(
    delivery: Delivery[M], retry: Retry, *, policy: RetryPolicy, task: str, state: State, **facts: Any
) -> None:
    """Logs, counts and keeps a message's failure, and says when it comes again: after the delay, doubled with each attempt.

    The caller reports the message as failed in any case: after the last retry it comes back once more, at once, and is moved
    to the dead-letter queue. `facts` (e.g. source_id) go to the log.
    """
    seconds = 0
    if not delivery.is_last:
        seconds = max(policy.delay_seconds, retry.min_seconds) * 2 ** (delivery.attempt - 1)
    _note(
        delivery.message_id,
        retry.reason,
        task=task,
        attempt=delivery.attempt,
        retrying=not delivery.is_last,
        state=state,
        **facts,
    )
    change_visibility(delivery.receipt, queue_url=policy.url, seconds=seconds)


def give_up(record: Mapping[str, Any], reason: str, *, policy: RetryPolicy, task: str, state: State) -> None:
    """Logs, counts and keeps the failure of a message that no retry makes readable."""
    _note(record["messageId"], reason, task=task, attempt=_attempt(record), retrying=False, state=state)
    change_visibility(record["receiptHandle"], queue_url=policy.url, seconds=0)


def change_visibility(receipt: str, *, queue_url: str, seconds: float) -> None:
    """Says when a message that is reported as failed comes again; without it, after the queue's visibility timeout."""
    try:
        with aws.translated():
            aws.client("sqs").change_message_visibility(
                QueueUrl=queue_url, ReceiptHandle=receipt, VisibilityTimeout=min(round(seconds), MAX_VISIBILITY_SECONDS)
            )
    except aws.AwsError as error:
        log.warning("ChangeMessageVisibility failed", error=str(error))


def reason_name(message_id: str) -> str:
    """The name in the state table of the reason why a message failed last."""
    return f"reason:{message_id}"


def _attempt(record: Mapping[str, Any]) -> int:
    return int(record.get("attributes", {}).get("ApproximateReceiveCount", 1))


def _note(message_id: str, reason: str, *, task: str, attempt: int, retrying: bool, state: State, **facts: Any) -> None:
    write_line = log.warning if retrying else log.error
    write_line(f"{task} failed", task=task, error=masked(reason), retrying=retrying, attempt=attempt, **facts)
    count_by(Metric.TASKS_FAILED, 1, "task", task)
    kept = {"task": task, "reason": masked(reason), "attempt": attempt, "at": clock.iso(clock.now())}
    try:
        state.put(reason_name(message_id), kept, ttl_seconds=REASON_TTL_SECONDS)
    except Exception as error:  # the reason is for the reader; without it, the batch still has its answer
        log.warning("reason not stored", task=task, error=type(error).__name__)
