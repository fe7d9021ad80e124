"""A run of one of the seven tasks: its lines in the log, its metrics, and its result, which is kept and read by id.

Also what a queue-fed task does with a message that failed: when it comes again, and where its reason stands.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from proxypool import aws, clock
from proxypool.state import State
from proxypool.telemetry import Metric, count_by, flush, log, masked

REASON_TTL_SECONDS = 14 * 86_400  # as long as the dead-letter queue keeps the message
MAX_VISIBILITY_SECONDS = 43_200


@dataclass(slots=True)
class Run:
    """What a task found, filled in while it runs: plain numbers and short texts."""

    counts: dict[str, Any] = field(default_factory=dict)


@contextmanager
def run(
    task: str, *, run_id: str, state: State, result_ttl_seconds: int, is_queue_fed: bool = False, **facts: Any
) -> Iterator[Run]:
    """Logs the start and the end of a run with its counts and `duration_ms`, and keeps its result for `GET /tasks/{id}`.

    An error passes through, logged and kept too, and counted unless the task is fed by a queue: then `retry_later` counts each
    message that it failed. `facts` (e.g. source_id) stand in every line.
    """
    started_at, started = clock.now(), time.perf_counter()
    log.info(f"{task} started", task=task, run_id=run_id, **facts)
    this = Run()
    error = ""
    try:
        yield this
    except Exception as raised:
        error = masked(f"{type(raised).__name__}: {raised}")
        raise
    finally:
        duration_ms = round((time.perf_counter() - started) * 1000)
        result = {
            "id": run_id,
            "task": task,
            "started_at": clock.iso(started_at),
            "duration_ms": duration_ms,
            "status": "failed" if error else "done",
            "counts": {**facts, **this.counts},
            "error": error or this.counts.get("error"),
        }
        if error:
            if not is_queue_fed:
                count_by(Metric.TASKS_FAILED, 1, "task", task)
            log.error(f"{task} failed", task=task, run_id=run_id, error=error, duration_ms=duration_ms, **facts)
        else:
            log.info(f"{task} done", task=task, run_id=run_id, duration_ms=duration_ms, **{**facts, **this.counts})
        count_by(Metric.TASK_DURATION, duration_ms, "task", task)
        flush()
        _keep(state, task, run_id, result, result_ttl_seconds)


def result_name(run_id: str) -> str:
    """Where a run's result stands in the state table."""
    return f"task:{run_id}"


def last_name(task: str) -> str:
    """Where the last run of a task stands in the state table (what GET /stats/pool shows)."""
    return f"last:{task}"


def success_name(task: str) -> str:
    """Where the state table says when the last run of a task started that did what it is for."""
    return f"success:{task}"


def reason_name(message_id: str) -> str:
    """Where the reasons of a message's failed tries stand in the state table."""
    return f"reason:{message_id}"


def attempt(record: Mapping[str, Any]) -> int:
    """Which delivery of the message this is: 1, 2, …"""
    return int(record.get("attributes", {}).get("ApproximateReceiveCount", 1))


def retry_later(
    record: Mapping[str, Any],
    *,
    queue_url: str,
    base_seconds: int,
    retries: int,
    reason: str,
    state: State,
    task: str,
    **facts: Any,
) -> bool:
    """Says when a failed message comes again: `base_seconds`, doubling with each try; True if there is another try.

    The caller reports the message as failed in any case; after the last try the queue's redrive policy moves it to the
    dead-letter queue. The reason is kept under the message's id for as long as the dead-letter queue keeps the message.
    """
    number = attempt(record)
    retrying = number <= retries
    tell = log.warning if retrying else log.error
    tell(f"{task} failed", task=task, error=masked(reason), retrying=retrying, attempt=number, **facts)
    count_by(Metric.TASKS_FAILED, 1, "task", task)
    message_id = str(record.get("messageId", ""))
    if message_id:
        state.put(
            reason_name(message_id),
            {"task": task, "reason": masked(reason), "attempt": number, "at": clock.iso(clock.now())},
            ttl_seconds=REASON_TTL_SECONDS,
        )
    # After the last retry the message comes back once more at once, finds no try left and is moved.
    wait(record, queue_url=queue_url, seconds=base_seconds * 2 ** (number - 1) if retrying else 0)
    return retrying


def wait(record: Mapping[str, Any], *, queue_url: str, seconds: float) -> None:
    """Says when a message that is reported as failed comes again; else it would be after the queue's visibility time-out."""
    try:
        aws.client("sqs").change_message_visibility(
            QueueUrl=queue_url,
            ReceiptHandle=record["receiptHandle"],
            VisibilityTimeout=min(round(seconds), MAX_VISIBILITY_SECONDS),
        )
    except (ClientError, BotoCoreError) as error:
        log.warning("visibility not changed", error=str(error))


def _keep(state: State, task: str, run_id: str, result: dict[str, Any], ttl_seconds: int) -> None:
    try:
        state.put(result_name(run_id), result, ttl_seconds=ttl_seconds)
        state.put(last_name(task), result)
        if _succeeded(result):
            state.put(success_name(task), result["started_at"])
    except Exception as error:
        log.warning("result not kept", task=task, error=type(error).__name__)


def _succeeded(result: Mapping[str, Any]) -> bool:
    """Whether the run did what it is for: a list that has not changed was read; a paused pool's was not."""
    return result["error"] is None and result["counts"].get("skipped") in (None, "not_modified")
