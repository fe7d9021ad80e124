"""Builds the objects of the ETL worker from the settings; used by fetch_page, manage and the tests."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from dataclasses import dataclass

from proxypool_client.aio import AsyncPool

from proxypool import aws, clock
from proxypool.aws.state import StateTable
from proxypool.config.settings import Settings
from proxypool.http.caller import ON_BEHALF_HEADER, OWNER_HEADER
from proxypool.jobs.crawl import Crawler
from proxypool.jobs.fetch.domains import Domains
from proxypool.jobs.fetch.gate import Gate
from proxypool.jobs.fetch.robots import Robots
from proxypool.jobs.leases import Leases
from proxypool.jobs.run import Runner
from proxypool.jobs.service import Jobs
from proxypool.jobs.store import usage
from proxypool.jobs.store.result import Results
from proxypool.jobs.store.table import JobTable
from proxypool.jobs.worker import Outcomes, Worker
from proxypool.network.fetch import FetchLimits
from proxypool.network.tls import client_context
from proxypool.proxies.table import ProxyTable


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRuntime:
    """A worker with its tables, TLS context and caches. One per Lambda environment, reused by all batches."""

    settings: Settings
    state: StateTable
    proxies: ProxyTable
    worker: Worker
    robots: Robots
    tls: ssl.SSLContext

    async def work(self, keys: Sequence[str], *, seconds: float) -> Outcomes:
        """Runs these jobs concurrently and adds the received bytes to the usage of the proxies' sources."""
        config = self.settings
        async with AsyncPool(config.need("api_url"), verify=self.tls) as pool:
            behalf_header = OWNER_HEADER if config.allow_loopback else ON_BEHALF_HEADER
            runner = Runner(
                pool=pool,
                leases=Leases(pool, behalf_header),
                gate=Gate(config.need("state_table")),
                robots=self.robots,
                limits=FetchLimits(allow_loopback=config.allow_loopback),
                tls=self.tls,
                page_seconds=config.fetch_page_seconds,
                behalf_header=behalf_header,
            )
            outcomes = await self.worker.work(keys, runner, seconds=seconds)
        usage.save(runner.spent, self.proxies, self.state, now=clock.now())
        return outcomes


def build_worker_runtime(settings: Settings) -> WorkerRuntime:
    """Builds the worker and the AWS clients that its threads share."""
    for service in (
        "dynamodb",
        "events",
    ):  # here, once: else each thread would start to create one, which takes over 100 ms
        aws.client(service)
    state, jobs = StateTable(settings.need("state_table")), build_job_table(settings)
    return WorkerRuntime(
        settings=settings,
        state=state,
        proxies=ProxyTable(settings.need("proxies_table")),
        worker=Worker(
            jobs=jobs,
            results=build_results(settings),
            domains=build_domains(settings, state),
            crawler=Crawler(jobs, state, settings),
            settings=settings,
        ),
        robots=Robots(state),
        tls=client_context(settings.judge_ca_file),
    )


def build_service(settings: Settings) -> Jobs:
    """Builds the service behind the job routes of the API."""
    state = StateTable(settings.need("state_table"))
    return Jobs(
        jobs=build_job_table(settings),
        results=build_results(settings),
        domains=build_domains(settings, state),
        settings=settings,
    )


def build_job_table(settings: Settings) -> JobTable:
    """The jobs table."""
    return JobTable(settings.need("jobs_table"), settings.job_ttl_seconds)


def build_results(settings: Settings) -> Results:
    """The store of results: the job's row, or S3."""
    return Results(settings.need("bodies_bucket"), settings.job_result_max_bytes)


def build_domains(settings: Settings, state: StateTable) -> Domains:
    """The domains that jobs may fetch from."""
    return Domains(state, settings.jobs_any_domain, settings.jobs_allow_http)
