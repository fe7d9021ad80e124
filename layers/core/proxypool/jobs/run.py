"""One run of a job: lease, fetch, classify the page, release; repeated on other exits up to the maximum number of attempts."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from proxypool_client.aio import AsyncPool
from proxypool_client.bans import Finding, Rule, classify_response
from proxypool_client.errors import ApiError as PoolRefused
from proxypool_client.errors import PoolEmpty, PoolError, VersionConflict
from proxypool_client.outcome import Outcome
from proxypool_client.pool import Lease
from proxypool_client.sessions import Session

from proxypool import clock
from proxypool.errors import ProxyPoolError
from proxypool.jobs.fetch.domains import Domain
from proxypool.jobs.fetch.gate import Gate, RateLimited
from proxypool.jobs.fetch.page import Answer, FetchFailed, PageRequest, RequestRefused, fetch
from proxypool.jobs.fetch.robots import Robots
from proxypool.jobs.job import Job, JobRequest
from proxypool.jobs.leases import Leases
from proxypool.network.fetch import FetchLimits

WAIT_SECONDS: Final = 10.0  # for a free proxy, before the job is requeued
MAX_LEASE_TRIES: Final = 5  # leases whose exit was tried already are released unused
MAX_AUTH_FAILURES: Final = 2  # 407: a second lease has the current credentials
MAX_SAVES: Final = 5  # of a session, each rebased on the version that another holder saved
DENIED_REASONS: Final = frozenset({"http_401", "http_403", "http_451"})
FINAL_REASONS: Final = frozenset(
    {"too_large", "encoding", "too_many_redirects"}
)  # properties of the page: another exit does not help


class Requeue(ProxyPoolError):
    """The job has to wait `seconds` for a proxy or for the rate limit of its domain. Does not count as an attempt."""

    def __init__(self, seconds: float, reason: str) -> None:
        super().__init__(reason)
        self.seconds, self.reason = seconds, reason


@dataclass(slots=True)
class RunResult:
    """The outcome of one run."""

    finding: Finding | None = None  # of the last attempt; None before the first
    answer: Answer | None = None  # the page, if there is one
    lease: Lease | None = None
    attempts: int = 0
    received_bytes: int = 0
    auth_failures: int = 0
    robots_ignored: str = ""  # the operator's reason


@dataclass(slots=True, kw_only=True)
class Runner:
    """Executes the runs of one batch; holds the objects that they share."""

    pool: AsyncPool
    leases: Leases
    gate: Gate
    robots: Robots
    limits: FetchLimits
    tls: ssl.SSLContext
    page_seconds: float
    behalf_header: str  # the request header that names the owner of the leases
    spent: dict[str, int] = field(default_factory=dict)  # bytes by proxy id
    cookies_dropped: int = 0

    async def run(self, job: Job, domain: Domain, *, deadline: float) -> RunResult:
        """Runs a job; raises Requeue or RequestRefused. `deadline` is a value of time.monotonic()."""
        headers = {self.behalf_header: job.owner}
        session = await self._session(job, headers)
        result = RunResult(robots_ignored="" if domain.robots else domain.reason)
        tried: set[str] = set()
        while result.attempts < job.request.max_attempts and time.monotonic() + 1 < deadline:
            async with self._turn(domain), self._leased(job, tried, result) as lease:
                if lease is None:
                    break
                await self._attempt(job.request, domain, session, lease, result, deadline)
            if result.finding is None or not _should_retry(result, domain):
                break
        if session is not None and session.jar.changes:
            await self._save(session, headers)
        return result

    @asynccontextmanager
    async def _turn(self, domain: Domain) -> AsyncIterator[None]:
        """Waits for the rate limit and holds a slot of the domain; raises Requeue if the wait is too long."""
        try:
            slot = await self.gate.enter(domain)
        except RateLimited as later:
            raise Requeue(later.seconds, "domain_busy") from later
        try:
            yield
        finally:
            await self.gate.leave(domain, slot)

    @asynccontextmanager
    async def _leased(self, job: Job, tried: set[str], result: RunResult) -> AsyncIterator[Lease | None]:
        """Holds a lease on an exit not tried yet (None if there is none); releases it with the outcome of the attempt."""
        lease = await self._lease(job, tried, result)
        if lease is None:
            yield None
            return
        result.finding, previous = None, result.finding
        try:
            yield lease
        finally:
            await self._release(job, lease, result.finding)
            tried |= {_exit_id(lease)} | ({lease.proxy_id} if lease.exit_ip else set())  # a gateway has more exits
            result.finding = result.finding or previous

    async def _attempt(
        self,
        request: JobRequest,
        domain: Domain,
        session: Session | None,
        lease: Lease,
        result: RunResult,
        deadline: float,
    ) -> None:
        page_request = self._page_request(request, domain, session)
        seconds = min(self.page_seconds, deadline - time.monotonic())
        if domain.robots and not await self.robots.allows(
            request.url, lambda url: self._fetch_plain(url, domain, lease, result)
        ):
            raise RequestRefused("robots_disallowed")
        result.attempts, result.lease, result.answer = result.attempts + 1, lease, None
        try:
            answer = await fetch(page_request, lease.proxy_url, tls=self.tls, seconds=seconds)
        except FetchFailed as failure:
            result.finding = Finding(outcome=failure.outcome, reason=failure.reason)
            return
        finally:
            self._add_bytes(lease, result, page_request.received_bytes)
        rule = Rule(
            must_contain=request.must_contain,
            must_not_contain=request.must_not_contain,
            empty_is_fine=request.method == "HEAD",
        )
        result.finding = classify_response(answer.status, answer.headers, answer.body, rule=rule)
        result.answer = answer if result.finding.outcome is Outcome.OK else None

    async def _fetch_plain(self, url: str, domain: Domain, lease: Lease, result: RunResult) -> Answer | None:
        """Fetches a page without session, headers or body; None if that failed."""
        page_request = PageRequest(request=JobRequest(url=url), allow_http=domain.allow_http, limits=self.limits)
        try:
            return await fetch(page_request, lease.proxy_url, tls=self.tls, seconds=self.page_seconds)
        except (FetchFailed, RequestRefused):
            return None
        finally:
            self._add_bytes(lease, result, page_request.received_bytes)

    async def _lease(self, job: Job, tried: set[str], result: RunResult) -> Lease | None:
        """Acquires a lease whose exit was not tried in this run; None if there is none."""
        filters = dict(job.request.lease) | {"target": job.request.host}
        if job.request.session_id:
            filters["session_id"] = job.request.session_id
        elif tried:
            filters["exclude"] = sorted(name for name in tried if len(name) == 20 and name.isalnum())
        if job.request.url.startswith("https:"):
            filters["https"] = True
        for number in range(MAX_LEASE_TRIES):
            key = f"{job.token}.{result.attempts}.{number}"
            lease = await self._acquire(job, {**filters}, key, first=not tried)
            if lease is None:
                return None
            if _exit_id(lease) not in tried:
                return lease
            await self._release(job, lease, None)
            if job.request.session_id:
                return None
            filters["exclude"] = sorted({*filters.get("exclude", ()), lease.proxy_id})
        return None

    async def _acquire(self, job: Job, filters: dict[str, Any], key: str, *, first: bool) -> Lease | None:
        """Acquires a lease. If there is none: raises Requeue at the first attempt, returns None at further ones."""
        if first and not job.request.session_id:  # leases of sessions are not batched
            lease = await self.leases.acquire_now(job.owner, filters, key=key)
            if lease is not None:
                return lease
        try:
            return await self.leases.acquire(job.owner, filters, key=key, wait_seconds=WAIT_SECONDS if first else 0)
        except PoolRefused as refusal:
            if refusal.retry_after_seconds is None:  # waiting does not help
                raise
            if first:  # no proxy, quota reached, pool paused or being rebuilt: the job waits
                raise Requeue(refusal.retry_after_seconds, refusal.type) from refusal
            if not (
                isinstance(refusal, PoolEmpty) and refusal.reasons.get("leased")
            ):  # no lease that could be released
                return None
        with suppress(PoolRefused):
            return await self.leases.acquire(job.owner, filters, key=key, wait_seconds=WAIT_SECONDS)
        return None

    async def _release(self, job: Job, lease: Lease, finding: Finding | None) -> None:
        outcome, seconds = (finding.outcome.value, finding.retry_after_seconds) if finding else ("", None)
        with suppress(PoolError):  # the lease then expires
            await self.leases.release(job.owner, lease, outcome, seconds)

    async def _session(self, job: Job, headers: dict[str, str]) -> Session | None:
        name = job.request.session_id
        if not name:
            return None
        return await self.pool.session(name, headers=headers) or Session(id=name)

    async def _save(self, session: Session, headers: dict[str, str]) -> None:
        """Saves the cookies, rebased on those that another holder saved in the meantime."""
        self.cookies_dropped += session.jar.count_dropped(now=clock.now().timestamp())
        for _ in range(MAX_SAVES):
            try:
                await self.pool.save(session, headers=headers)
            except VersionConflict:
                session = session.rebased_on(await self.pool.session(session.id, headers=headers))
                await asyncio.sleep(0)
            except PoolRefused as refusal:
                raise Requeue(WAIT_SECONDS, f"session_{refusal.type or refusal.status}") from refusal
            else:
                return
        raise Requeue(WAIT_SECONDS, "session_contended")

    def _page_request(self, request: JobRequest, domain: Domain, session: Session | None) -> PageRequest:
        page_request = PageRequest(request=request, allow_http=domain.allow_http, limits=self.limits)
        if session is not None:
            page_request.jar, page_request.tokens, page_request.headers = session.jar, session.tokens, session.headers
        return page_request

    def _add_bytes(self, lease: Lease, result: RunResult, number: int) -> None:
        result.received_bytes += number
        self.spent[lease.proxy_id] = self.spent.get(lease.proxy_id, 0) + number


def _exit_id(lease: Lease) -> str:
    """Identifies the exit of a lease: its IP, else the URL (a gateway has another exit for each session name in it)."""
    return lease.exit_ip or lease.proxy_url


def _should_retry(result: RunResult, domain: Domain) -> bool:
    """True if another exit may help. A denied page is only retried where the operator allows it for the domain. Credentials that were
    refused twice are not retried: those of the provider are wrong.
    """
    finding = result.finding
    if finding is None or finding.outcome is Outcome.OK or finding.reason in FINAL_REASONS:
        return False
    if finding.outcome is Outcome.CREDENTIALS:
        result.auth_failures += 1
        return result.auth_failures < MAX_AUTH_FAILURES
    return domain.rotate_denied or finding.reason not in DENIED_REASONS
