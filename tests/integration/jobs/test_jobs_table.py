"""The jobs table on the emulated AWS: conditional writes ensure one result per run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from proxypool.jobs.job import Job, JobRequest, JobState
from proxypool.jobs.store.statements import Ending
from proxypool.jobs.store.table import JobTable

from tests.support import servers
from tests.support.clock import Clock

NOW = datetime(2028, 5, 17, 12, tzinfo=UTC)
DONE = Ending(state=JobState.DONE, attempts=1, result=b"page", received_bytes=10)


@pytest.fixture(autouse=True)
def at_noon(clock: Clock) -> None:
    """The clock of the table agrees with the `now` arguments of the tests."""
    clock.set(NOW)


@pytest.fixture(scope="module")
def jobs(aws_endpoint: str) -> JobTable:
    return JobTable(servers.create_tables(f"jt{uuid4().hex[:8]}-")["JobsTable"], 100_000)


def a_job(owner: str = "ann", job_id: str = "", **parts: object) -> Job:
    return Job(owner=owner, id=job_id or uuid4().hex, request=JobRequest(url="https://shop.example/", **parts))  # type: ignore[arg-type]


def started(jobs: JobTable, job: Job, *, now: datetime = NOW) -> Job:
    run = jobs.start([job.key], now=now, seconds=100)[0]
    assert isinstance(run, Job)
    return run


def test_a_job_is_created_started_and_finished_once(jobs: JobTable) -> None:
    """I12."""
    job = a_job()
    assert jobs.create(job)
    assert not jobs.create(job)

    run = started(jobs, job)
    assert jobs.start([job.key], now=NOW, seconds=100) == [None]
    assert jobs.finish([(run, DONE)], now=NOW) == [True]

    assert jobs.finish([(run, DONE)], now=NOW) == [False]
    assert jobs.start([job.key], now=NOW, seconds=100) == [None]
    found = jobs.packed(job.key)
    assert found is not None
    assert (found[0].state, found[0].processed, found[0].runs, found[1]) == (JobState.DONE, True, 1, b"page")


def test_a_run_past_its_deadline_is_overtaken_and_cannot_finish(jobs: JobTable) -> None:
    """I12, I6: the token of the row has changed, so its late result is dropped."""
    job = a_job()
    jobs.create(job)
    first = started(jobs, job)
    second = started(jobs, job, now=NOW + timedelta(seconds=101))

    late = Ending(state=JobState.DONE, attempts=1, result=b"late")
    assert jobs.finish([(first, late), (second, DONE)], now=NOW) == [False, True]

    found = jobs.packed(job.key)
    assert found is not None
    assert found[1] == b"page"
    assert found[0].runs == 2


def test_a_replay_is_counted_and_keeps_the_old_result_until_it_is_replaced(jobs: JobTable) -> None:
    """I12: explicit and counted; a failed replay does not change the result."""
    job = a_job()
    jobs.create(job)
    assert jobs.replay(job.key, now=NOW) is None  # not finished
    jobs.finish([(started(jobs, job), DONE)], now=NOW)

    assert jobs.replay(job.key, now=NOW) is not None
    jobs.finish([(started(jobs, job), Ending(state=JobState.BLOCKED, attempts=3, reason="http_429"))], now=NOW)

    found = jobs.packed(job.key)
    assert found is not None
    assert (found[0].state, found[0].replays, found[1]) == (JobState.BLOCKED, 1, b"page")

    jobs.replay(job.key, now=NOW)
    jobs.finish([(started(jobs, job), Ending(state=JobState.DONE, attempts=1, result_key="results/x"))], now=NOW)
    found = jobs.packed(job.key)
    assert found is not None
    assert (found[0].result_key, found[0].reason, found[1]) == ("results/x", "", None)


def test_an_id_of_two_owners_is_two_jobs(jobs: JobTable) -> None:
    """I15: one id, two owners, two jobs, two lists."""
    ann, bob = a_job("ann-1", "same"), a_job("bob-1", "same")
    assert jobs.create(ann)
    assert jobs.create(bob)
    jobs.finish([(started(jobs, ann), DONE)], now=NOW)

    assert [job.key for job in jobs.page("ann-1", JobState.DONE, limit=10)[0]] == [ann.key]
    assert jobs.page("bob-1", JobState.DONE, limit=10) == ([], None)
    assert [job.key for job in jobs.page("bob-1", JobState.QUEUED, limit=10)[0]] == [bob.key]


def test_a_row_past_its_ttl_is_absent(aws_endpoint: str) -> None:
    """Input 80: DynamoDB deletes late, every read treats it as absent."""
    jobs = JobTable(servers.create_tables(f"jt{uuid4().hex[:8]}-")["JobsTable"], 0)
    job = a_job()
    assert jobs.create(job)

    assert jobs.get(job.key) is None
    assert jobs.packed(job.key) is None
    assert jobs.start([job.key], now=NOW, seconds=10) == [None]
    assert jobs.replay(job.key, now=NOW) is None
    assert jobs.page(job.owner, JobState.QUEUED, limit=10)[0] == []
    assert jobs.create(job)


def test_jobs_are_listed_in_pages(jobs: JobTable) -> None:
    created = [a_job("lister") for _ in range(5)]
    for job in created:
        jobs.create(job)

    first, key = jobs.page("lister", JobState.QUEUED, limit=3)
    second, end = jobs.page("lister", JobState.QUEUED, limit=3, after=key)

    assert {job.id for job in first + second} == {job.id for job in created}
    assert len(first) == 3
    assert end is None


def test_a_batch_is_counted_and_listed_by_state(jobs: JobTable) -> None:
    created = [a_job("crawler", batch="b1") for _ in range(3)]
    for job in created:
        jobs.create(job)
    jobs.create(a_job("other", batch="b1"))
    jobs.finish([(started(jobs, created[0]), DONE)], now=NOW)

    counts = jobs.batch_counts("crawler", "b1")

    assert (counts["done"], counts["queued"], sum(counts.values())) == (1, 2, 3)
    assert [job.id for job in jobs.page("crawler", JobState.DONE, batch="b1", limit=10)[0]] == [created[0].id]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(["start", "late start", "finish", "fail", "replay", "requeue"]), max_size=12))
def test_only_one_run_holds_a_job_in_any_sequence_of_steps(jobs: JobTable, steps: list[str]) -> None:
    """I12 against a model: only the last started run can finish the job, and only once."""
    job, holder, state, replays, runs = a_job(), None, "queued", 0, 0
    jobs.create(job)
    past: list[Job] = []
    for number, step in enumerate(steps):
        now = NOW + timedelta(seconds=number)
        if step in ("start", "late start"):
            start_at = now + timedelta(seconds=1000 * (step == "late start"))
            found = jobs.start([job.key], now=start_at, seconds=10_000 if step == "start" else 0)[0]
            can_start = state == "queued" or (
                state == "running" and holder is not None and holder.deadline_ms <= start_at.timestamp() * 1000
            )
            assert (found is not None) == can_start
            if isinstance(found, Job):
                past += [holder] if holder else []
                holder, state, runs = found, "running", runs + 1
        elif step in ("finish", "fail") and holder is not None:
            ending = DONE if step == "finish" else Ending(state=JobState.FAILED, attempts=1, reason="x")
            assert jobs.finish([(holder, ending)], now=now) == [state == "running"]
            state, past, holder = ("finished" if state == "running" else state), [*past, holder], None
        elif step == "replay":
            assert (jobs.replay(job.key, now=now) is not None) == (state == "finished")
            if state == "finished":
                state, replays = "queued", replays + 1
        elif step == "requeue" and holder is not None:
            assert jobs.requeue(holder, now=now) == (state == "running")
            state, past, holder = "queued", [*past, holder], None
        assert not any(jobs.finish([(old, DONE)], now=now)[0] for old in past)
    found = jobs.get(job.key)
    assert found is not None
    assert (found.replays, found.runs) == (replays, runs)
