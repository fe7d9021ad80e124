"""The worker of jobs: pages of a loopback site, with duplicate messages and a killed worker: none lost, none stored twice.

The CPU and memory of the worker's own processes are measured; emulator, Valkey, proxies and site are separate. Afterwards crawlee's
HttpCrawler runs with the same site, proxies and concurrency. Imports and a warm-up request are in neither's figures.
"""

from __future__ import annotations

import random
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from multiprocessing import get_context
from typing import Any

from proxypool import clock
from proxypool.config.settings import Settings
from proxypool.jobs.build import build_worker_runtime
from proxypool.jobs.job import JobState
from proxypool.network import loop

from tests.bench.memory import peak_megabytes
from tests.bench.row import Row
from tests.bench.yardstick import crawl
from tests.support import servers
from tests.support.jobs import JobEnvironment, job_environment

PAGES, EXITS, BATCH, DUPLICATES = 2_000, 200, 64, 0.05
KILLED_BATCH, KILLED_AFTER_PAGES = 3, 20  # the batch whose worker is killed, and after how many pages
LIMIT_SECONDS, POLL_SECONDS = 300, 0.005
CLIENTS = ("impit", "httpx")  # crawlee's default, written in Rust, and the one in Python


def measure() -> list[Row]:
    """One run of each; the figures of all batches."""
    with (
        servers.valkey_cluster() as url,
        servers.emulator(),
        job_environment(url, exits=EXITS, owner_quota=1_000) as env,
    ):
        ids = _submitted(env)
        spent, seconds = _fetched(env, ids)
        states = Counter(env.job(job_id).state for job_id in ids)
        requests = Counter(seen.path for seen in env.site.seen)
        yardsticks = [_yardstick(env, spent, client) for client in CLIENTS]
    return [
        Row(name="pages lost", value=PAGES - states[JobState.DONE], unit="", target=0),
        Row(name="pages stored twice", value=max(0, spent.counts["done"] - PAGES), unit="", target=0),
        Row(name="requests per page", value=round(sum(requests.values()) / PAGES, 3), unit=""),
        Row(name="worker's CPU per page", value=round(spent.cpu_ms, 2), unit="ms"),
        *yardsticks,
        Row(name="worker's memory, 64 pages in flight", value=round(spent.megabytes), unit="MB", target=256),
        Row(name="pages per second, all parts on this machine", value=round(PAGES / seconds, 1), unit=""),
    ]


@dataclass(slots=True)
class Spent:
    """Resource usage and counts of the workers' processes."""

    counts: Counter[str] = field(default_factory=Counter)
    cpu_seconds: float = 0.0
    deliveries: int = 0
    megabytes: float = 0.0

    @property
    def cpu_ms(self) -> float:
        """CPU per delivered message, duplicates included."""
        return self.cpu_seconds / max(1, self.deliveries) * 1000


def _submitted(env: JobEnvironment) -> list[str]:
    jobs = [{"url": f"{env.site.url}/{number}"} for number in range(PAGES)]
    pages = [env.jobs.submit("ann", {"jobs": jobs[at : at + 100]})["jobs"] for at in range(0, PAGES, 100)]
    env.messages()
    return [one["id"] for page in pages for one in page]


def _fetched(env: JobEnvironment, ids: list[str]) -> tuple[Spent, float]:
    """Runs all jobs, some of them delivered twice; returns the usage, and the seconds of the first pass."""
    spent, started = Spent(), time.monotonic()
    deliveries = ids + random.Random(1).sample(ids, int(PAGES * DUPLICATES))
    random.Random(2).shuffle(deliveries)
    batches = _batches(deliveries)
    with _worker(env.settings, spent) as work:
        for batch in batches[:KILLED_BATCH]:
            work(batch)
        limit = len(env.site.seen) + KILLED_AFTER_PAGES
        work(batches[KILLED_BATCH], lambda: len(env.site.seen) >= limit)
    with _worker(env.settings, spent) as work:
        for batch in batches[KILLED_BATCH + 1 :]:
            work(batch)
    seconds = time.monotonic() - started
    with _worker(env.settings, spent, late=True) as work:  # the claim of the killed run has expired by then
        work(batches[KILLED_BATCH])
        end = time.monotonic() + LIMIT_SECONDS
        while time.monotonic() < end and (ids := [one for one in ids if not env.job(one).state.is_over]):
            time.sleep(1)  # requeued jobs arrive as delayed messages
            for batch in _batches([message["job_key"].rpartition("/")[2] for message in env.messages()]):
                work(batch)
    return spent, seconds


def _batches(ids: Sequence[str]) -> list[list[str]]:
    return [list(ids[at : at + BATCH]) for at in range(0, len(ids), BATCH)]


@contextmanager
def _worker(settings: Settings, spent: Spent, *, late: bool = False) -> Iterator[Any]:
    """A process that runs batches like a Lambda environment; `work(batch, is_killed)` kills it once `is_killed()` is true."""
    context = get_context("spawn")
    parent_end, child_end = context.Pipe()
    child = context.Process(target=_work, args=(settings, late, child_end))
    child.start()
    child_end.close()
    parent_end.recv()  # warmed up

    def work(batch: list[str], is_killed: Callable[[], bool] = lambda: False) -> None:
        parent_end.send(batch)
        while not parent_end.poll(POLL_SECONDS):
            if is_killed():
                child.kill()
                return
        counts, cpu_seconds, megabytes = parent_end.recv()
        spent.counts.update(counts)
        spent.cpu_seconds += cpu_seconds
        spent.deliveries += len(batch)
        spent.megabytes = max(spent.megabytes, megabytes)

    try:
        yield work
    finally:
        parent_end.close()
        child.join(10)
        child.kill()


def _work(settings: Settings, late: bool, orders: Any) -> None:
    runtime = build_worker_runtime(settings)
    if late:
        runtime = replace(runtime, worker=replace(runtime.worker, now=lambda: clock.now() + timedelta(hours=1)))
    loop.run(runtime.work(["ann/unknown"], seconds=LIMIT_SECONDS))  # warm-up: imports and connections
    orders.send("warm")
    while True:
        try:
            batch = orders.recv()
        except EOFError:
            return
        before = time.process_time()
        outcomes = loop.run(runtime.work([f"ann/{job_id}" for job_id in batch], seconds=LIMIT_SECONDS))
        orders.send((dict(outcomes.counts), time.process_time() - before, peak_megabytes()))


def _yardstick(env: JobEnvironment, spent: Spent, client: str) -> Row:
    """The worker's CPU per page relative to crawlee's; only crawlee's default client has a target."""
    name, target = f"worker's CPU per page ÷ crawlee HttpCrawler's ({client})", 1.0 if client == CLIENTS[0] else None
    proxies = [f"http://{proxy.ip}:{proxy.port}" for proxy in env.proxies]
    try:
        found = crawl(env.site.url, proxies, pages=PAGES, at_once=BATCH, client=client)
    except (subprocess.SubprocessError, OSError, ValueError) as error:
        return Row(name=name, value=None, unit="", target=target, reason=f"crawlee did not run: {error}"[:200])
    theirs = found["cpu_seconds"] / found["pages"] * 1000
    return Row(name=f"{name}, {theirs:.1f} ms", value=round(spent.cpu_ms / theirs, 2), unit="", target=target)
