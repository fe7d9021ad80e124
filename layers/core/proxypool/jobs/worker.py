"""Runs the jobs of one batch of the fetch queue concurrently; each message fails alone. Conditional writes to the jobs table ensure
exactly one result per run: after a duplicate, a crash or a replay the row has a new token, and the old run writes nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from proxypool_client.bans import Finding
from proxypool_client.outcome import Outcome

from proxypool import clock
from proxypool.aws import queues
from proxypool.aws.dynamodb import StatementRefused
from proxypool.aws.events import EVENTS_PER_CALL, Event, publish_many
from proxypool.config.settings import Settings
from proxypool.jobs import transforms
from proxypool.jobs.batcher import Batcher
from proxypool.jobs.crawl import Crawler
from proxypool.jobs.fetch.domains import Domains
from proxypool.jobs.fetch.page import Answer, RequestRefused
from proxypool.jobs.job import Job, JobState
from proxypool.jobs.run import Requeue, Runner, RunResult
from proxypool.jobs.store.lake import write_row
from proxypool.jobs.store.result import Results, ResultTooLarge
from proxypool.jobs.store.statements import Ending
from proxypool.jobs.store.table import JobTable
from proxypool.jobs.transforms import TransformError
from proxypool.telemetry import Metric, count, log

STARTS_PER_CALL: Final = 50
ENDINGS_PER_CALL: Final = 10  # each with a result of up to 200 KB
STORED_HEADERS: Final = ("content-type", "etag", "last-modified", "content-language")
_BLOCKS: Final = frozenset({Outcome.BLOCKED, Outcome.CAPTCHA, Outcome.RATE_LIMITED})
_METRICS: Final = {
    JobState.DONE.value: Metric.JOBS_DONE,
    JobState.FAILED.value: Metric.JOBS_FAILED,
    JobState.BLOCKED.value: Metric.JOBS_BLOCKED,
    "requeued": Metric.JOBS_REQUEUED,
    "bytes": Metric.JOB_BYTES,
    "cookies_dropped": Metric.COOKIES_DROPPED,
}
"""The metric of each count of a batch."""

JobEvent = tuple[Event, Mapping[str, Any]]
"""An event to publish, with its detail."""


@dataclass(slots=True)
class Outcomes:
    """The result of a batch: counts, and the jobs to retry or to hold, by job key."""

    counts: Counter[str] = field(default_factory=Counter)
    retries: dict[str, str] = field(default_factory=dict)  # the reason of each failure on our side
    held: dict[str, float] = field(default_factory=dict)  # jobs that another run holds: seconds until its deadline


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """Runs the jobs of one deployment."""

    jobs: JobTable
    results: Results
    domains: Domains
    crawler: Crawler
    settings: Settings
    now: Callable[[], datetime] = clock.now

    async def work(self, keys: Sequence[str], runner: Runner, *, seconds: float) -> Outcomes:
        """Runs these jobs concurrently within `seconds`. An error in one job does not affect the others."""
        batch = _Batch(self, runner, time.monotonic() + seconds)
        semaphore = asyncio.Semaphore(self.settings.fetch_concurrency)

        async def run_one(key: str) -> None:
            async with semaphore:
                try:
                    event = await self._run_job(key, batch)
                    if event is not None:
                        await batch.publishing.submit(None, event)
                except Exception as error:
                    log.exception("fetch_page failed", job=key.rpartition("/")[2], error=type(error).__name__)
                    batch.outcomes.retries[key] = type(error).__name__

        await asyncio.gather(*(run_one(key) for key in dict.fromkeys(keys)))
        counts = batch.outcomes.counts
        if runner.cookies_dropped:
            counts["cookies_dropped"] = runner.cookies_dropped
        for name, metric in _METRICS.items():
            if counts[name]:
                count(metric, counts[name])
        return batch.outcomes

    async def _run_job(self, key: str, batch: _Batch) -> JobEvent | None:
        """Runs one job; returns its event, or None."""
        job = await batch.starting.submit(None, key)
        if job is None:
            return await asyncio.to_thread(self._not_started, key, batch.outcomes)
        try:
            result, refused = await self._run(job, batch)
            return await self._finish(job, result, refused, batch)
        except Requeue as later:
            await asyncio.to_thread(self._requeue, job, later, batch.outcomes)
            return None
        except Exception:  # the message is delivered again and finds the job queued
            await asyncio.to_thread(self.jobs.requeue, job, now=self.now())
            raise

    async def _run(self, job: Job, batch: _Batch) -> tuple[RunResult, str]:
        """The result of the run, and the reason if its request was refused, else ""."""
        domain = self.domains.find(job.request.host)
        if domain is None:
            return RunResult(), "domain_not_allowed"
        latest = min(batch.deadline, time.monotonic() + self.settings.job_run_seconds)
        try:
            return await batch.runner.run(job, domain, deadline=latest), ""
        except RequestRefused as refusal:
            return RunResult(), refusal.reason

    async def _finish(self, job: Job, result: RunResult, refused: str, batch: _Batch) -> JobEvent | None:
        ending, value = await asyncio.to_thread(self._ending, job, result, refused)
        counts = batch.outcomes.counts
        if not await batch.finishing.submit(None, (job, ending)):
            return await asyncio.to_thread(self._overtaken, job, batch.outcomes)
        counts[ending.state.value] += 1
        counts["bytes"] += ending.received_bytes
        if self.settings.jobs_lake and value is not None:
            await asyncio.to_thread(write_row, self.results.bucket, job, value, now=self.now())
        return _job_event(job, ending.state, ending.reason, ending.attempts)

    def _overtaken(self, job: Job, outcomes: Outcomes) -> JobEvent | None:
        """Either another run took the job, or this one finished it and the response of that write was lost."""
        current = self.jobs.get(job.key)
        if current is None or current.runs != job.runs or not current.state.is_over:
            outcomes.counts["overtaken"] += 1
            return None
        outcomes.counts[current.state.value] += 1
        return _job_event(current, current.state, current.reason, current.attempts)

    def _ending(self, job: Job, result: RunResult, refused: str) -> tuple[Ending, dict[str, Any] | None]:
        """The row changes that finish the run, and its result; a large result is stored in S3 under the token of the run."""
        number, size = result.attempts, result.received_bytes
        if refused:
            return Ending(state=JobState.FAILED, attempts=number, reason=refused), None
        if result.finding is None:
            raise Requeue(self.settings.fetch_retry_seconds, "no_time")
        if result.answer is None:
            state, reason = _failure(result.finding), result.finding.reason
            return Ending(state=state, attempts=number, reason=reason, received_bytes=size), None
        value, reason = _result(job, result, result.answer, self.now())
        try:
            packed, key = self.results.store(job, value)
        except ResultTooLarge:
            return Ending(state=JobState.FAILED, attempts=number, reason="result_too_large", received_bytes=size), None
        self.crawler.follow(job, result.answer)
        state = JobState.FAILED if reason else JobState.DONE
        ending = Ending(state=state, attempts=number, reason=reason, received_bytes=size, result=packed, result_key=key)
        return ending, value

    def _not_started(self, key: str, outcomes: Outcomes) -> JobEvent | None:
        """The job is gone, finished or held by another run. If finished, its event is published again: the run may have crashed before."""
        job = self.jobs.get(key)
        if job is None or job.state.is_over:
            outcomes.counts["repeated"] += 1
            return None if job is None else _job_event(job, job.state, job.reason, job.attempts)
        outcomes.held[key] = max(1.0, (job.deadline_ms - clock.epoch_ms(self.now())) / 1000)
        return None

    def _requeue(self, job: Job, later: Requeue, outcomes: Outcomes) -> None:
        """Queues the job again by a new, delayed message. Waiting is not a failure, so the old message is deleted."""
        outcomes.counts["requeued"] += 1
        log.info("job requeued", job=job.id, reason=later.reason, seconds=round(later.seconds, 1))
        if self.jobs.requeue(job, now=self.now()):
            message = queues.FetchMessage(job_key=job.key)
            delay = max(1, min(queues.MAX_DELAY_SECONDS, round(later.seconds)))
            queues.send(self.settings.need("fetch_queue_url"), [message], group=queues.JOBS_GROUP, delay_seconds=delay)


class _Batch:
    """The state that the jobs of one call of `work` share."""

    def __init__(self, worker: Worker, runner: Runner, deadline: float) -> None:
        self.runner, self.deadline, self.outcomes = runner, deadline, Outcomes()
        jobs, settings, now = worker.jobs, worker.settings, worker.now

        async def start(_: None, keys: list[str]) -> list[Job | StatementRefused | None]:
            return await asyncio.to_thread(jobs.start, keys, now=now(), seconds=settings.job_run_seconds)

        async def finish(_: None, endings: list[tuple[Job, Ending]]) -> list[bool | StatementRefused]:
            return await asyncio.to_thread(jobs.finish, endings, now=now())

        async def publish(_: None, events: list[JobEvent]) -> list[None]:
            await asyncio.to_thread(publish_many, settings.need("event_bus"), events)
            return [None] * len(events)

        self.starting: Batcher[None, str, Job | None] = Batcher(start, STARTS_PER_CALL)
        self.finishing: Batcher[None, tuple[Job, Ending], bool] = Batcher(finish, ENDINGS_PER_CALL)
        self.publishing: Batcher[None, JobEvent, None] = Batcher(publish, EVENTS_PER_CALL)


def _job_event(job: Job, state: JobState, reason: str, attempts: int) -> JobEvent:
    event = Event.JOB_COMPLETED if state is JobState.DONE else Event.JOB_FAILED
    detail: dict[str, Any] = {
        "job_id": job.id,
        "owner": job.owner,
        "state": state.value,
        "run": job.runs,
        "attempts": attempts,
    }
    return event, detail | ({"reason": reason} if reason else {})


def _failure(finding: Finding) -> JobState:
    return JobState.BLOCKED if finding.outcome in _BLOCKS else JobState.FAILED


def _result(job: Job, result: RunResult, answer: Answer, now: datetime) -> tuple[dict[str, Any], str]:
    """The result of a page as stored, and the reason if its transform failed, else "". After a failure `data` is the raw body."""
    lease = result.lease
    options: Mapping[str, Any] = {name: value for name, value in job.request.transform.items() if name != "name"}
    result_json = {
        "job_id": job.id,
        "url": answer.url,
        "status": answer.status,
        "headers": {name: answer.headers[name] for name in STORED_HEADERS if name in answer.headers},
        "fetched_at": clock.iso(now),
        "exit_ip": lease and lease.exit_ip,
        "proxy_id": lease and lease.proxy_id,
        "attempts": result.attempts,
    } | ({"robots_ignored": result.robots_ignored} if result.robots_ignored else {})
    transform = transforms.find(str(job.request.transform.get("name", "raw")))
    try:
        if transform is None:
            raise TransformError("unknown")
        return result_json | {"data": transform.apply(answer, options)}, ""
    except TransformError as error:
        reason = f"transform_{error.reason}"
        return result_json | {"error": reason, "data": transforms.raw_data(answer)}, reason
