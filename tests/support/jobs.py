"""An environment for the worker of jobs: tables and queue on the emulated AWS, a real Valkey, proxies and a site on loopback."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any
from uuid import uuid4

from proxypool import aws, clock
from proxypool.config.settings import Settings
from proxypool.jobs.build import WorkerRuntime, build_service, build_worker_runtime
from proxypool.jobs.job import Job
from proxypool.jobs.service import Jobs
from proxypool.jobs.worker import Outcomes
from proxypool.leases.index.ready import Index
from proxypool.leases.pool import Pool
from proxypool.proxies.proxy import Anonymity, Protocol, Proxy, Status
from proxypool.proxies.record import CheckFacts, ProxyRecord

from tests.support import servers
from tests.support.lease_http import lease_api
from tests.support.leases import a_pool
from tests.support.site import ForwardProxy, Reply, Seen, Site, serving


@dataclass(slots=True)
class JobEnvironment:
    """The resources of a worker, and helpers to submit and run jobs."""

    settings: Settings
    site: Site
    proxies: list[ForwardProxy]
    pool: Pool
    calls: list[str] = field(default_factory=list)  # route keys of requests to the lease API

    @property
    def jobs(self) -> Jobs:
        """The service behind the API's routes."""
        return build_service(self.settings)

    @property
    def runtime(self) -> WorkerRuntime:
        """A new worker."""
        return build_worker_runtime(self.settings)

    def submit(self, path: str = "/", owner: str = "ann", **parts: Any) -> str:
        """Submits a page of the site; returns the job's id."""
        return str(self.jobs.submit(owner, {"url": self.site.url + path, **parts})["id"])

    def work(self, *ids: str, owner: str = "ann", seconds: float = 60) -> Outcomes:
        """Runs these jobs in one worker, as one batch."""
        return asyncio.run(self.runtime.work([f"{owner}/{job_id}" for job_id in ids], seconds=seconds))

    def job(self, job_id: str, owner: str = "ann") -> Job:
        """The stored job."""
        found = self.jobs.jobs.get(f"{owner}/{job_id}")
        assert found is not None
        return found

    def result(self, job_id: str, owner: str = "ann") -> dict[str, Any]:
        """Its stored result."""
        return self.jobs.result(owner, job_id)

    def messages(self) -> list[dict[str, Any]]:
        """The messages of the fetch queue, which are deleted."""
        sqs = aws.client("sqs")
        found: list[dict[str, Any]] = []
        while True:
            page = sqs.receive_message(QueueUrl=self.settings.fetch_queue_url, MaxNumberOfMessages=10)
            if not page.get("Messages"):
                return found
            for message in page["Messages"]:
                found.append(json.loads(message["Body"]))
                sqs.delete_message(QueueUrl=self.settings.fetch_queue_url, ReceiptHandle=message["ReceiptHandle"])

    def exits(self, path: str = "/") -> list[str]:
        """The exit IPs of the requests for a path, in order."""
        return [seen.exit_ip for seen in self.site.seen if seen.path == path]


def page(_: Seen) -> Reply:
    """The default page of the site."""
    return 200, {"content-type": "text/html"}, b"<html><h1>hello</h1></html>"


@contextmanager
def job_environment(valkey_url: str, answer: Any = page, *, exits: int = 3, **changes: Any) -> Iterator[JobEnvironment]:
    """An environment with `exits` proxies, each with its own exit. `changes` are fields of Settings."""
    site = Site(answer)
    proxies = [ForwardProxy(f"127.65.0.{number}") for number in range(1, exits + 1)]
    with serving(site, *proxies):
        pool = a_pool(valkey_url, owner_quota=changes.get("owner_quota", Settings().owner_quota))
        Index(pool.cache, 3_600).upsert([_record(proxy) for proxy in proxies])
        queue = aws.client("sqs").create_queue(QueueName=f"fetch-{uuid4().hex[:8]}")["QueueUrl"]
        settings = replace(_resources(os.environ["AWS_ENDPOINT_URL"]), fetch_queue_url=queue, redis_url=valkey_url)
        settings = replace(settings, **changes)
        env = JobEnvironment(settings, site, proxies, pool)
        with lease_api(pool, settings, env.calls.append) as url:
            env.settings = replace(settings, api_url=url)
            rules = {"requests_per_second": 1_000, "concurrency": 0, "allow_http": True}
            # The tables are shared with test files whose clock was ahead: their rate limit must not delay this one.
            aws.client("dynamodb").delete_item(TableName=settings.state_table, Key={"name": {"S": "gate:127.0.0.1"}})
            env.jobs.domains.put("127.0.0.1", rules | {"robots": False, "reason": "our own site"})
            yield env
        pool.cache.close()


@cache
def _resources(endpoint: str) -> Settings:
    """The tables, the bus and the bucket, shared by all environments of a process: the ids of their jobs differ."""
    prefix = f"wo{uuid4().hex[:8]}-"
    tables = servers.create_tables(prefix)
    aws.client("s3").create_bucket(Bucket=prefix + "bodies")
    aws.client("events").create_event_bus(Name=prefix + "bus")
    return Settings(
        jobs_table=tables["JobsTable"], state_table=tables["StateTable"], proxies_table=tables["ProxiesTable"],
        bodies_bucket=prefix + "bodies", event_bus=prefix + "bus", allow_loopback=True, jobs_any_domain=True,
        jobs_allow_http=True, fetch_page_seconds=5,
    )  # fmt: skip


def _record(proxy: ForwardProxy) -> ProxyRecord:
    now = clock.now()
    facts = CheckFacts(passed=5.0, count=5, latency_ms=20.0, exit_ip=proxy.ip, country="de", anonymity=Anonymity.ELITE)
    made = Proxy(Protocol.HTTP, proxy.ip, proxy.port)
    return ProxyRecord(
        proxy=made,
        first_seen_at=now,
        last_seen_at=now,
        status=Status.ACTIVE,
        version=1,
        last_checked_at=now,
        check=facts,
    )
