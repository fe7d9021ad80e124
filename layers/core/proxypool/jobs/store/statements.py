"""Conditional statements that start and finish runs. A batch of them is one call; each is applied or refused alone."""

from __future__ import annotations

from dataclasses import dataclass

from proxypool.aws.dynamodb import Statement, Value, update
from proxypool.jobs.job import Job, JobState, split_key


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """The row changes that finish a run. `result` is the packed result, `result_key` its key in S3; without both there is no result."""

    state: JobState
    attempts: int
    reason: str = ""
    result: bytes | None = None
    result_key: str = ""
    received_bytes: int = 0


def begin_run(table_name: str, key: str, *, token: str, now_ms: int, seconds: float) -> Statement:
    """Starts a run under this token if the job is queued, or if the run that holds it is past its deadline."""
    owner, _ = split_key(key)
    return update(
        table_name,
        [
            ("job_id", "=", key),
            ("deadline_ms", "<=", now_ms),
            ("ttl", ">", now_ms // 1000),
            *(("state", "<>", state.value) for state in JobState if state.is_over),
        ],
        sets={
            "state": JobState.RUNNING.value,
            "owner_state": owner_state(owner, JobState.RUNNING),
            "token": token,
            "deadline_ms": now_ms + int(seconds * 1000),
            "updated_ms": now_ms,
        },
        adds={"runs": 1},
    )


def end_run(table_name: str, job: Job, *, ending: Ending, now_ms: int, expires_at: int) -> Statement:
    """Finishes the run that holds `job`, if the row still has its token. Only existing attributes are removed: since the token is
    unchanged, the row has the attributes that `job` was read with.
    """
    sets: dict[str, Value] = {
        "state": ending.state.value, "owner_state": owner_state(job.owner, ending.state), "deadline_ms": 0,
        "updated_ms": now_ms, "attempts": ending.attempts, "ttl": expires_at,
    }  # fmt: skip
    removes = ["token"]
    if ending.reason:
        sets["reason"] = ending.reason
    elif job.reason:
        removes.append("reason")
    if ending.result is not None:
        sets |= {"result": ending.result, "processed": True}
        removes += ["result_key"] if job.result_key else []
    elif ending.result_key:
        sets |= {"result_key": ending.result_key, "processed": True}
        removes += ["result"] if job.processed and not job.result_key else []
    where = [("job_id", "=", job.key), ("token", "=", job.token)]
    return update(table_name, where, sets=sets, adds={"received_bytes": ending.received_bytes}, removes=removes)


def owner_state(owner: str, state: JobState) -> str:
    """The key of the index by state."""
    return f"{owner}#{state.value}"
