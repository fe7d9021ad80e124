"""The job routes of the API. Each call sees only the owner's jobs: another owner's job is NotFound."""

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
from proxypool.jobs.job import JOB_ID, Job, JobState, job_key
from proxypool.jobs.store.result import Results
from proxypool.jobs.store.table import JobTable

PAGE: Final = 100

QUERY_FIELDS: Final = {
    "state": Field(kind=str, choices=tuple(JobState), default=JobState.FAILED.value),
    "batch": Field(kind=str, default="", pattern=JOB_ID),
    "next": Field(kind=str, pattern=r"[A-Za-z0-9_=-]{1,600}", description="Page token (`next`) of the previous page"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Jobs:
    """POST /jobs and the other job routes."""

    jobs: JobTable
    results: Results
    domains: Domains
    settings: Settings

    def submit(self, owner: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Queues jobs; the same id again is the same job. Raises Invalid, or IdempotencyConflict where an id has another request."""
        wanted = read_jobs(body, owner, settings=self.settings, domains=self.domains)
        new = [self._create(job) for job in wanted]
        # An old job that still waits is sent, too: its message may have been lost between its row and the queue.
        messages = [queues.FetchMessage(job_key=job.key) for job, sends in zip(wanted, new, strict=True) if sends]
        queues.send(self.settings.need("fetch_queue_url"), messages, group=queues.JOBS_GROUP)
        if "jobs" in body:
            return {"jobs": [{"id": job.id} for job in wanted]}
        return {"id": wanted[0].id}

    def show(self, owner: str, job_id: str) -> dict[str, Any]:
        """One job; raises NotFound."""
        return to_json(self._job(owner, job_id))

    def result(self, owner: str, job_id: str) -> dict[str, Any]:
        """The result of the last run that had one; raises NotFound where there is none."""
        found = self.jobs.packed(_key(owner, job_id))
        value = self.results.load(*found) if found else None
        if value is None:
            raise NotFound
        return value

    def page(self, owner: str, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """A page of the jobs in one state, newest first, with the token of the next page (`next`, null at the end)."""
        after = _place(wanted["next"], owner) if wanted["next"] else None
        state = JobState(wanted["state"])
        jobs, last = self.jobs.page(owner, state, batch=wanted["batch"], limit=PAGE, after=after)
        return {"jobs": [to_json(job) for job in jobs], "next": last and _text(last)}

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
        """The progress of a batch (0.0–1.0 of the jobs so far) and its jobs by state; raises NotFound."""
        states = self.jobs.batch_counts(owner, name) if is_job_id(name) else {}
        number = sum(states.values())
        if not number:
            raise NotFound
        over = sum(count for state, count in states.items() if JobState(state).is_over)
        return {"id": name, "progress": round(over / number, 4), "jobs": number, "states": states}

    def list_domains(self) -> dict[str, Any]:
        """All allowed domains with their rules."""
        return {"domains": [asdict(domain) for domain in self.domains.all()]}

    def allow_domain(self, name: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Allows a domain and its subdomains under these rules; raises Invalid, or NotFound if the name is no domain."""
        if not re.fullmatch(DOMAIN_NAME, name):
            raise NotFound
        return asdict(self.domains.put(name, body))

    def forbid_domain(self, name: str) -> None:
        """Removes a domain; raises NotFound."""
        if not self.domains.remove(name):
            raise NotFound

    def _create(self, job: Job) -> bool:
        """Writes the job; whether its message must be sent."""
        if self.jobs.create(job):
            return True
        there = self.jobs.get(job.key)
        if there is not None and there.request.digest() != job.request.digest():
            raise IdempotencyConflict(f"job {job.id} is another request")
        return there is None or there.state is JobState.QUEUED

    def _job(self, owner: str, job_id: str) -> Job:
        found = self.jobs.get(_key(owner, job_id))
        if found is None:
            raise NotFound
        return found


def _key(owner: str, job_id: str) -> str:
    if not is_job_id(job_id):
        raise NotFound
    return job_key(owner, job_id)


def _text(place: Mapping[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode()


def _place(text: str, owner: str) -> dict[str, Any]:
    """The position in a page token; raises Invalid if it is none, or is among another owner's jobs."""
    try:
        place = json.loads(base64.urlsafe_b64decode(text))
        theirs = str(place["job_id"]["S"]).rpartition("/")[0] == owner
    except (ValueError, TypeError, KeyError) as error:
        raise Invalid([{"field": "next", "message": "is not a valid page token"}]) from error
    if not theirs:
        raise Invalid([{"field": "next", "message": "is not a valid page token"}])
    return dict(place)
