"""What the Lambda handlers of tasks have in common: `ScheduledHandler` for EventBridge schedules, `QueueHandler` for SQS batches.

A queue-fed handler decodes each message, sends the batch back while the pool is paused, runs the work, arranges the retry of what
failed and answers with a partial batch response. An app.py makes one handler: `handler = QueueHandler(task=…, make=…, work=…)`.
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

RESERVE_SECONDS = 10.0  # of the invocation, to write results and to give claims back

T = TypeVar("T")
M = TypeVar("M", ScrapeMessage, ValidateMessage, FetchMessage)
Again = Mapping[str, Retry | Hold]
"""The messages that must come again, by message id; all others are done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """One run of a task. `seconds_left` is without the reserve; `counts` go to the log and into the kept result."""

    run_id: str
    seconds_left: Callable[[], float]
    counts: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class ScheduledHandler(Generic[T]):
    """A task that a schedule starts. An error passes, logged and kept as the run's result.

    Attributes:
        make: makes what `work` gets, once per Lambda environment, at the first invocation.
        work: does one run and returns its counts, which are also what the invocation returns.
    """

    task: str
    make: Callable[[Settings], T]
    work: Callable[[T, Invocation], Mapping[str, Any]]
    reserve_seconds: float = RESERVE_SECONDS

    def __call__(self, event: dict[str, Any], context: Any) -> dict[str, Any]:
        """Handles one invocation."""
        with _run(self.task, context) as run:
            run.counts.update(self.work(self._made, _invocation(run, context, self.reserve_seconds)))
        return run.counts

    @cached_property
    def _made(self) -> T:
        return self.make(settings())


@dataclass(frozen=True, kw_only=True)
class QueueHandler(Generic[T, M]):
    """A task that a queue feeds.

    Attributes:
        kind: what the queue carries. A message that cannot be read ends in the dead-letter queue, with the reason.
        queue: "scrape", "validate" or "fetch": its URL and retries are the settings of that prefix.
        make: makes what `work` gets, once per Lambda environment, at the first message.
        work: handles a batch, or each message alone with `one_run_each`. An error fails all messages that it was given.
        facts: what names a message in the log.
        paused_group: if set, a batch that comes while the pool is paused is sent again, delayed, in this message group: to fail
            it would use up its deliveries. Else `work` decides.
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
        """The partial batch response; raises KeyError where the event is no batch."""
        policy = RetryPolicy.of_queue(self.queue, settings())
        again: dict[str, Retry | Hold] = {}
        readable: list[Delivery[M]] = []
        for record in event["Records"]:
            try:
                readable.append(Delivery.read(record, self.kind, policy))
            except MessageError as error:
                again[record["messageId"]] = Retry(error.reason)
                retry.give_up(record, error.reason, policy=policy, task=self.task, state=_state())
        for group in self._groups(readable, policy):
            again |= self._handle(group, context, policy)
        ids = [record["messageId"] for record in event["Records"]]
        return {"batchItemFailures": [{"itemIdentifier": one} for one in ids if one in again]}

    def _groups(self, readable: list[Delivery[M]], policy: RetryPolicy) -> list[list[Delivery[M]]]:
        """The deliveries of each run; none where all were sent again because the pool is paused."""
        if not readable:
            return []
        if self.paused_group and is_paused(_state()):
            messages = dict.fromkeys(delivery.message for delivery in readable)
            queues.send(policy.url, messages, group=self.paused_group, delay_seconds=queues.MAX_DELAY_SECONDS)
            return []
        return [[delivery] for delivery in readable] if self.one_run_each else [readable]

    def _handle(self, group: Sequence[Delivery[M]], context: Any, policy: RetryPolicy) -> Again:
        facts = self.facts(group[0].message) if self.one_run_each else {}
        again: Again
        try:
            with _run(self.task, context, is_queue_fed=True, **facts) as run:
                again = self.work(self._made, group, _invocation(run, context, self.reserve_seconds))
        except Exception as error:  # logged by the run
            again = {delivery.message_id: Retry(type(error).__name__) for delivery in group}
        for delivery in group:
            result = again.get(delivery.message_id)
            if isinstance(result, Hold):
                retry.change_visibility(delivery.receipt, queue_url=policy.url, seconds=result.seconds)
            elif result is not None:
                facts = self.facts(delivery.message)
                retry.schedule(delivery, result, policy=policy, task=self.task, state=_state(), **facts)
        return again

    @cached_property
    def _made(self) -> T:
        return self.make(settings())


def _run(task: str, context: Any, *, is_queue_fed: bool = False, **facts: Any) -> AbstractContextManager[runs.Run]:
    ttl_seconds = settings().result_ttl_seconds
    return runs.run(
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
