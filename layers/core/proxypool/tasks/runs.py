"""One run of a task: its log lines, its metrics, and its stored result."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from proxypool import clock
from proxypool.aws.state import StateTable
from proxypool.telemetry import Metric, count_by, flush, log, masked


@dataclass(slots=True)
class Run:
    """The counts of a run, set by the task: numbers and short texts."""

    counts: dict[str, Any] = field(default_factory=dict)


@contextmanager
def record_run(
    task: str, *, run_id: str, state: StateTable, result_ttl_seconds: int, is_queue_fed: bool = False, **facts: Any
) -> Iterator[Run]:
    """Logs the start and the end of a run with its counts and `duration_ms`, and stores its result for `GET /tasks/{id}`.

    An error is logged, stored and raised. It is also counted, unless the task reads a queue: then each failed message is
    counted (retry.schedule_retry). `facts` (e.g. source_id) are fields of every log line.
    """
    started_at, started = clock.now(), time.perf_counter()
    log.info(f"{task} started", task=task, run_id=run_id, **facts)
    current = Run()
    error = ""
    try:
        yield current
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
            "counts": {**facts, **current.counts},
            "error": error or current.counts.get("error"),
        }
        if error:
            if not is_queue_fed:
                count_by(Metric.TASKS_FAILED, 1, "task", task)
            log.error(f"{task} failed", task=task, run_id=run_id, error=error, duration_ms=duration_ms, **facts)
        else:
            log.info(f"{task} done", task=task, run_id=run_id, duration_ms=duration_ms, **{**facts, **current.counts})
        count_by(Metric.TASK_DURATION, duration_ms, "task", task)
        flush()
        _store(state, task, run_id, result, result_ttl_seconds)


def result_name(run_id: str) -> str:
    """The key in the state table of the result of a run."""
    return f"task:{run_id}"


def last_name(task: str) -> str:
    """The key in the state table of the result of the last run of a task (shown by GET /stats/pool)."""
    return f"last:{task}"


def success_name(task: str) -> str:
    """The name in the state table of the start of a task's last successful run."""
    return f"success:{task}"


def _store(state: StateTable, task: str, run_id: str, result: dict[str, Any], ttl_seconds: int) -> None:
    try:
        state.put(result_name(run_id), result, ttl_seconds=ttl_seconds)
        state.put(last_name(task), result)
        if _succeeded(result):
            state.put(success_name(task), result["started_at"])
    except Exception as error:
        log.warning("task result not stored", task=task, error=type(error).__name__)


def _succeeded(result: Mapping[str, Any]) -> bool:
    """True if the run did its work. An unchanged list is a success, a run that was skipped because the pool is paused is not."""
    return result["error"] is None and result["counts"].get("skipped") in (None, "not_modified")
