"""How runs begin and end: conditional statements, many a call, each of which takes effect or fails by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from proxypool.errors import ProxyPoolError
from proxypool.jobs.job import Job, JobState, split_key
from proxypool.table import Statement, execute, parameters


class NotWritten(ProxyPoolError):
    """DynamoDB refused to write a job for another reason than its condition; the text is its code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a run ended. `result` is the packed result, or `result_key` where it lies in S3; a job without either has none."""

    state: JobState
    attempts: int
    reason: str = ""
    result: bytes | None = None
    result_key: str = ""
    received_bytes: int = 0


def begin(table_name: str, key: str, *, token: str, now_ms: int, seconds: float) -> Statement:
    """Takes the job for a run under this token, if it waits, or if the run that holds it is taken for dead."""
    owner, _ = split_key(key)
    over = " ".join(f"AND \"state\" <> '{state.value}'" for state in JobState if state.is_over)
    return (
        f'UPDATE "{table_name}" SET "state" = ?, owner_state = ?, "token" = ?, deadline_ms = ?, updated_ms = ?, runs = runs + 1 '
        f'WHERE job_id = ? AND deadline_ms <= ? AND "ttl" > ? {over}',
        parameters(
            JobState.RUNNING.value, owner_state(owner, JobState.RUNNING), token, now_ms + int(seconds * 1000), now_ms,
            key, now_ms, now_ms // 1000,
        ),
    )  # fmt: skip


def end(table_name: str, job: Job, *, ending: Ending, now_ms: int, expires_at: int) -> Statement:
    """Ends the run that took `job`, if its token is still the one. What is removed is there: under its token the row is as it was
    when the run began.
    """
    sets: dict[str, str | int | bytes | bool] = {
        "state": ending.state.value, "owner_state": owner_state(job.owner, ending.state), "deadline_ms": 0,
        "updated_ms": now_ms, "attempts": ending.attempts, "ttl": expires_at,
    }  # fmt: skip
    gone = ["token"]
    if ending.reason:
        sets["reason"] = ending.reason
    elif job.reason:
        gone.append("reason")
    if ending.result is not None:
        sets |= {"result": ending.result, "processed": True}
        gone += ["result_key"] if job.result_key else []
    elif ending.result_key:
        sets |= {"result_key": ending.result_key, "processed": True}
        gone += ["result"] if job.processed and not job.result_key else []
    set_all = ", ".join(f'"{name}" = ?' for name in sets)
    remove_all = " ".join(f'REMOVE "{name}"' for name in gone)
    return (
        f'UPDATE "{table_name}" SET received_bytes = received_bytes + ?, {set_all} {remove_all} '
        'WHERE job_id = ? AND "token" = ?',
        parameters(ending.received_bytes, *sets.values(), job.key, job.token),
    )


def took(statements: Sequence[Statement]) -> list[bool | NotWritten]:
    """Whether each of the conditional statements took effect, or how else it failed: each by itself."""
    codes = execute(statements)
    return [not code if code in ("", "ConditionalCheckFailed") else NotWritten(code) for code in codes]


def owner_state(owner: str, state: JobState) -> str:
    """The key of the index by state."""
    return f"{owner}#{state.value}"
