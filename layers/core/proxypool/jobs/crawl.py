"""Crawling: each link of a page becomes a job. The job id is a hash of the batch and the link, so a page that is fetched twice or linked
many times is one job. The page budget is a counter that is incremented before a job is created.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import blake2b

from proxypool.aws import queues
from proxypool.aws.state import StateTable
from proxypool.config.settings import Settings
from proxypool.errors import AddressRefused
from proxypool.jobs.fetch.page import Answer
from proxypool.jobs.job import ID_BYTES, Crawl, Job, JobRequest, JobState
from proxypool.jobs.store.table import JobTable
from proxypool.jobs.transforms.html import links
from proxypool.network.address import parse_public_url


@dataclass(frozen=True, slots=True)
class Crawler:
    """Creates jobs for the links of a page."""

    jobs: JobTable
    state: StateTable
    settings: Settings

    def follow(self, job: Job, page: Answer) -> int:
        """Queues a job for each new link of the page that the crawl follows; returns the number of messages sent."""
        crawl = job.request.crawl
        if crawl is None or crawl.depth < 1:
            return 0
        messages: list[queues.Message] = []
        for link in links(page):
            url = self._accepted(crawl, job, link)
            if not url:
                continue
            child = self._child(job, crawl, url)
            existing = self.jobs.get(child.key)
            if existing is not None:
                if existing.state is JobState.QUEUED:  # its message may have been lost with a run that crashed
                    messages.append(queues.FetchMessage(job_key=child.key))
                continue
            if not self._within_budget(job, crawl):
                break
            if self.jobs.create(child):
                messages.append(queues.FetchMessage(job_key=child.key))
        if messages:
            queues.send(self.settings.need("fetch_queue_url"), messages, group=queues.JOBS_GROUP)
        return len(messages)

    def _within_budget(self, job: Job, crawl: Crawl) -> bool:
        name = f"crawl:{job.owner}:{job.request.batch}"
        return self.state.add(name, 1, ttl_seconds=self.settings.job_ttl_seconds) < crawl.max_pages

    def _accepted(self, crawl: Crawl, job: Job, link: str) -> str:
        """The normalized URL of the link; "" if the crawl does not follow it."""
        if crawl.include and not any(part in link for part in crawl.include):
            return ""
        try:
            url = parse_public_url(link, allow_http=True, allow_loopback=self.settings.allow_loopback)
        except AddressRefused:
            return ""
        return "" if crawl.same_domain and url.host != job.request.host else str(url)

    def _child(self, job: Job, crawl: Crawl, url: str) -> Job:
        request: JobRequest = replace(
            job.request, url=url, method="GET", body="", crawl=replace(crawl, depth=crawl.depth - 1)
        )
        name = blake2b(f"{job.request.batch}\n{url}".encode(), digest_size=ID_BYTES).hexdigest()
        return Job(owner=job.owner, id=name, request=request)
