"""Service behind the job routes. Each call sees the jobs of one owner; a job of another owner is NotFound."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from proxypool import clock
from proxypool.aws import queues
from proxypool.config.settings import Settings
from proxypool.errors import IdempotencyConflict, Invalid, NotFound, VersionConflict
from proxypool.http.fields import to_json
from proxypool.http.web import Field
from proxypool.jobs.api import is_job_id, read_jobs
from proxypool.jobs.fetch.domains import DOMAIN_NAME, Domains
from proxypool.jobs.job import JOB_ID_PATTERN, Job, JobState, job_key
from proxypool.jobs.store.result import Results
from proxypool.jobs.store.table import JobTable

PAGE_SIZE: Final = 100

LIST_JOBS_QUERY: Final = {
    "state": Field(kind=str, choices=tuple(JobState), default=JobState.FAILED.value),
    "batch": Field(kind=str, default="", pattern=JOB_ID_PATTERN),
    "next": Field(kind=str, pattern=r"[A-Za-z0-9_=-]{1,600}", description="Page token (`next`) of the previous page"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Jobs:
    """Operations on jobs, batches and domains."""

    jobs: JobTable
    results: Results
    domains: Domains
    settings: Settings

    def submit(self, owner: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Queues jobs; a repeated id is the same job. Raises Invalid, or IdempotencyConflict if an id belongs to another request."""
        jobs = read_jobs(body, owner, settings=self.settings, domains=self.domains)
        needs_message = [self._create(job) for job in jobs]
        # A queued job gets a message again: its first one may have been lost after its row was written.
        messages = [queues.FetchMessage(job_key=job.key) for job, send in zip(jobs, needs_message, strict=True) if send]
        queues.send(self.settings.need("fetch_queue_url"), messages, group=queues.JOBS_GROUP)
        if "jobs" in body:
            return {"jobs": [{"id": job.id} for job in jobs]}
        return {"id": jobs[0].id}

    def show(self, owner: str, job_id: str) -> dict[str, Any]:
        """One job; raises NotFound."""
        return to_json(self._job(owner, job_id))

    def result(self, owner: str, job_id: str) -> dict[str, Any]:
        """The result of the last run that produced one; raises NotFound."""
        stored = self.jobs.packed(_key(owner, job_id))
        value = self.results.load(*stored) if stored else None
        if value is None:
            raise NotFound
        return value

    def page(self, owner: str, query: Mapping[str, Any]) -> dict[str, Any]:
        """A page of the jobs in one state, newest first, with the token of the next page (`next`, null at the end)."""
        after = _parse_page_token(query["next"], owner) if query["next"] else None
        state = JobState(query["state"])
        jobs, last = self.jobs.page(owner, state, batch=query["batch"], limit=PAGE_SIZE, after=after)
        return {"jobs": [to_json(job) for job in jobs], "next": last and _page_token(last)}

    def replay(self, owner: str, job_id: str) -> dict[str, Any]:
        """Runs a finished job again; raises NotFound, or VersionConflict if it is running."""
        job = self._job(owner, job_id)
        replayed = self.jobs.replay(job.key, now=clock.now())
        if replayed is None and job.state is not JobState.QUEUED:
            raise VersionConflict("the job is running")
        queues.send(
            self.settings.need("fetch_queue_url"), [queues.FetchMessage(job_key=job.key)], group=queues.JOBS_GROUP
        )
        return to_json(replayed or job)

    def delete(self, owner: str, job_id: str) -> None:
        """Removes a job and its result; raises NotFound."""
        job = self.jobs.delete(_key(owner, job_id))
        if job is None:
            raise NotFound
        self.results.delete(job)

    def batch(self, owner: str, name: str) -> dict[str, Any]:
        """The progress of a batch (0.0–1.0 of the jobs submitted so far) and its jobs by state; raises NotFound."""
        states = self.jobs.batch_counts(owner, name) if is_job_id(name) else {}
        total = sum(states.values())
        if not total:
            raise NotFound
        finished = sum(count for state, count in states.items() if JobState(state).is_over)
        return {"id": name, "progress": round(finished / total, 4), "jobs": total, "states": states}

    def list_domains(self) -> dict[str, Any]:
        """All allowed domains with their rules."""
        return {"domains": [asdict(domain) for domain in self.domains.all()]}

    def allow_domain(self, name: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Allows a domain and its subdomains under these rules; raises Invalid, or NotFound if the name is not a domain."""
        if not re.fullmatch(DOMAIN_NAME, name):
            raise NotFound
        return asdict(self.domains.put(name, body))

    def forbid_domain(self, name: str) -> None:
        """Removes a domain; raises NotFound."""
        if not self.domains.remove(name):
            raise NotFound

    def _create(self, job: Job) -> bool:
        """Writes the job if it is new; returns True if its message has to be sent."""
        if self.jobs.create(job):
            return True
        existing = self.jobs.get(job.key)
        if existing is not None and existing.request.digest() != job.request.digest():
            raise IdempotencyConflict(f"job {job.id} exists with another request")
        return existing is None or existing.state is JobState.QUEUED

    def _job(self, owner: str, job_id: str) -> Job:
        job = self.jobs.get(_key(owner, job_id))
        if job is None:
            raise NotFound
        return job


def _key(owner: str, job_id: str) -> str:
    if not is_job_id(job_id):
        raise NotFound
    return job_key(owner, job_id)


def _page_token(key: Mapping[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(key).encode()).decode()


def _parse_page_token(text: str, owner: str) -> dict[str, Any]:
    """The table key in a page token; raises Invalid if it is malformed or belongs to another owner."""
    try:
        key = json.loads(base64.urlsafe_b64decode(text))
        is_owners = str(key["job_id"]["S"]).rpartition("/")[0] == owner
    except (ValueError, TypeError, KeyError) as error:
        raise Invalid([{"field": "next", "message": "is not a valid page token"}]) from error
    if not is_owners:
        raise Invalid([{"field": "next", "message": "is not a valid page token"}])
    return dict(key)
