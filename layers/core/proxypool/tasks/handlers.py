"""Base of the Lambda handlers of tasks: `ScheduledHandler` for EventBridge schedules, `QueueHandler` for SQS batches.

A QueueHandler decodes the messages, requeues them while the pool is paused, calls `work`, schedules retries and returns a partial
batch response. Each app.py has one handler: `handler = QueueHandler(task=…, make=…, work=…)`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar

from proxypool.aws import queues
from proxypool.aws.queues import FetchMessage, ScrapeMessage, ValidateMessage
from proxypool.aws.state import StateTable, is_paused
from proxypool.config.settings import Settings, settings
from proxypool.errors import MessageError
from proxypool.tasks import retry, runs
from proxypool.tasks.retry import Delivery, Hold, Retry, RetryPolicy

RESERVE_SECONDS = 10.0  # of the invocation, for writing results and releasing claims

T = TypeVar("T")
M = TypeVar("M", ScrapeMessage, ValidateMessage, FetchMessage)
Again = Mapping[str, Retry | Hold]
"""The messages to be delivered again, by message id; all others are deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """One run of a task. `seconds_left` excludes the reserve; `counts` are logged and stored with the result."""

    run_id: str
    seconds_left: Callable[[], float]
    counts: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class ScheduledHandler(Generic[T]):
    """Handler of a task that a schedule starts. Errors are logged, stored as the result of the run, and raised.

    Attributes:
        make: builds the first argument of `work`; called once per Lambda environment, at the first invocation.
        work: executes one run and returns its counts, which are also the return value of the invocation.
    """

    task: str
    make: Callable[[Settings], T]
    work: Callable[[T, Invocation], Mapping[str, Any]]
    reserve_seconds: float = RESERVE_SECONDS

    def __call__(self, event: dict[str, Any], context: Any) -> dict[str, Any]:
        """Handles one invocation."""
        with _run(self.task, context) as run:
            run.counts.update(self.work(self._dependencies, _invocation(run, context, self.reserve_seconds)))
        return run.counts

    @cached_property
    def _dependencies(self) -> T:
        return self.make(settings())


@dataclass(frozen=True, kw_only=True)
class QueueHandler(Generic[T, M]):
    """Handler of a task that reads an SQS queue.

    Attributes:
        kind: the message class. A message that cannot be decoded is moved to the dead-letter queue, with the reason.
        queue: "scrape", "validate" or "fetch", the prefix of the settings for its URL and retries.
        make: builds the first argument of `work`; called once per Lambda environment, at the first message.
        work: handles a batch, or with `one_run_each` a single message. An error fails all messages of the call.
        facts: log fields that identify a message.
        paused_group: if set, messages that arrive while the pool is paused are sent again, delayed, in this message group: failing
            them would use up their receive counts. Otherwise `work` decides.
    """

    task: str
    kind: type[M]
    queue: str
    make: Callable[[Settings], T]
    work: Callable[[T, Sequence[Delivery[M]], Invocation], Again]
    facts: Callable[[M], dict[str, Any]]
    paused_group: str = ""
    one_run_each: bool = False
    reserve_seconds: float = RESERVE_SECONDS

    def __call__(self, event: dict[str, Any], context: Any) -> dict[str, Any]:
        """Handles one event; returns the partial batch response. Raises KeyError if the event is not an SQS batch."""
        policy = RetryPolicy.from_settings(self.queue, settings())
        again: dict[str, Retry | Hold] = {}
        deliveries: list[Delivery[M]] = []
        for record in event["Records"]:
            try:
                deliveries.append(Delivery.read(record, self.kind, policy))
            except MessageError as error:
                again[record["messageId"]] = Retry(error.reason)
                retry.give_up(record, error.reason, policy=policy, task=self.task, state=_state())
        for group in self._groups(deliveries, policy):
            again |= self._handle(group, context, policy)
        ids = [record["messageId"] for record in event["Records"]]
        return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in ids if message_id in again]}

    def _groups(self, deliveries: list[Delivery[M]], policy: RetryPolicy) -> list[list[Delivery[M]]]:
        """The deliveries of each run; empty if all were requeued because the pool is paused."""
        if not deliveries:
            return []
        if self.paused_group and is_paused(_state()):
            messages = dict.fromkeys(delivery.message for delivery in deliveries)
            queues.send(policy.url, messages, group=self.paused_group, delay_seconds=queues.MAX_DELAY_SECONDS)
            return []
        return [[delivery] for delivery in deliveries] if self.one_run_each else [deliveries]

    def _handle(self, group: Sequence[Delivery[M]], context: Any, policy: RetryPolicy) -> Again:
        facts = self.facts(group[0].message) if self.one_run_each else {}
        again: Again
        try:
            with _run(self.task, context, is_queue_fed=True, **facts) as run:
                again = self.work(self._dependencies, group, _invocation(run, context, self.reserve_seconds))
        except Exception as error:  # logged by the run
            again = {delivery.message_id: Retry(type(error).__name__) for delivery in group}
        for delivery in group:
            result = again.get(delivery.message_id)
            if isinstance(result, Hold):
                retry.change_visibility(delivery.receipt, queue_url=policy.url, seconds=result.seconds)
            elif result is not None:
                facts = self.facts(delivery.message)
                retry.schedule_retry(delivery, result, policy=policy, task=self.task, state=_state(), **facts)
        return again

    @cached_property
    def _dependencies(self) -> T:
        return self.make(settings())


def _run(task: str, context: Any, *, is_queue_fed: bool = False, **facts: Any) -> AbstractContextManager[runs.Run]:
    ttl_seconds = settings().result_ttl_seconds
    return runs.record_run(
        task,
        run_id=context.aws_request_id,
        state=_state(),
        result_ttl_seconds=ttl_seconds,
        is_queue_fed=is_queue_fed,
        **facts,
    )


def _invocation(run: runs.Run, context: Any, reserve_seconds: float) -> Invocation:
    def seconds_left() -> float:
        return max(0.0, float(context.get_remaining_time_in_millis()) / 1000 - reserve_seconds)

    return Invocation(run_id=context.aws_request_id, seconds_left=seconds_left, counts=run.counts)


def _state() -> StateTable:
    return StateTable(settings().need("state_table"))
