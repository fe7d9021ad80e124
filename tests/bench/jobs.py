"""The ETL worker: pages of a loopback site through a farm, with duplicates and a worker that is killed: none lost, none stored twice.

The worker runs in processes of its own, whose CPU and memory are taken; the emulator, Valkey, proxies and site stand beside.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from multiprocessing import get_context
from typing import Any

from proxypool import clock
from proxypool.jobs.build import bench
from proxypool.jobs.job import JobState
from proxypool.settings import Settings

from tests.bench.memory import peak_megabytes
from tests.bench.row import Row
from tests.support import servers
from tests.support.jobs import a_world

PAGES, EXITS, BATCH, DUPLICATES = 2_000, 200, 64, 0.05
KILLED_AFTER_SECONDS = 1.5  # of the run whose worker is killed
LIMIT_SECONDS = 300


def measure() -> list[Row]:
    """One run; the figures of all its batches."""
    with servers.valkey_cluster() as url, servers.emulator(), a_world(url, exits=EXITS, owner_quota=1_000) as world:
        jobs = [{"url": f"{world.site.url}/{number}"} for number in range(PAGES)]
        ids = [
            one["id"]
            for at in range(0, PAGES, 100)
            for one in world.jobs.submit("ann", {"jobs": jobs[at : at + 100]})["jobs"]
        ]
        world.messages()
        deliveries = ids + random.Random(1).sample(ids, int(PAGES * DUPLICATES))
        random.Random(2).shuffle(deliveries)
        batches = [deliveries[at : at + BATCH] for at in range(0, len(deliveries), BATCH)]
        started, done, spent, most = time.monotonic(), Counter[str](), 0.0, 0.0
        for number, batch in enumerate([*batches, batches[3], *_pages(world.messages())]):
            kill = KILLED_AFTER_SECONDS if number == 3 else None
            counts, cpu, memory = _run(world.settings, batch, late=number >= len(batches), kill_after=kill)
            done, spent, most = done + Counter(counts), spent + cpu, max(most, memory)
        seconds = time.monotonic() - started
        for _ in range(5):  # jobs that waited for a proxy came back as messages
            for batch in _pages(world.messages()):
                counts, cpu, memory = _run(world.settings, batch, late=True)
                done, spent, most = done + Counter(counts), spent + cpu, max(most, memory)
        states = Counter(world.job(job_id).state for job_id in ids)
        fetched = Counter(seen.path for seen in world.site.seen)
    return [
        Row(name="pages lost", value=PAGES - states[JobState.DONE], unit="", target=0),
        Row(name="pages stored twice", value=max(0, done["done"] - PAGES), unit="", target=0),
        Row(name="requests per page", value=round(sum(fetched.values()) / PAGES, 3), unit=""),
        Row(name="worker's CPU per page", value=round(spent / PAGES * 1000, 2), unit="ms"),
        Row(name="worker's memory, 64 pages in flight", value=round(most), unit="MB", target=256),
        Row(name="pages a second, all parts on this machine", value=round(PAGES / seconds, 1), unit=""),
    ]


def _pages(messages: list[dict[str, Any]]) -> list[list[str]]:
    ids = [message["job_key"].rpartition("/")[2] for message in messages]
    return [ids[at : at + BATCH] for at in range(0, len(ids), BATCH)]


def _run(
    settings: Settings, ids: list[str], *, late: bool, kill_after: float | None = None
) -> tuple[dict[str, int], float, float]:
    """One invocation in a process of its own: its counts, its CPU seconds and its peak memory in MB."""
    context = get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_work, args=(settings, ids, late, theirs))
    child.start()
    child.join(kill_after if kill_after is not None else LIMIT_SECONDS)
    if child.is_alive():
        child.kill()
        child.join()
    if not ours.poll():
        return {}, 0.0, 0.0
    found: tuple[dict[str, int], float, float] = ours.recv()
    return found


def _work(settings: Settings, ids: list[str], late: bool, back: Any) -> None:
    this = bench(settings)
    if late:  # the killed run is taken for dead
        this = replace(this, worker=replace(this.worker, now=lambda: clock.now() + timedelta(hours=1)))
    asyncio.run(this.work(["ann/nobody"], seconds=LIMIT_SECONDS))  # an environment loads and connects once
    before = time.process_time()
    outcomes = asyncio.run(this.work([f"ann/{job_id}" for job_id in ids], seconds=LIMIT_SECONDS))
    back.send((dict(outcomes.counts), time.process_time() - before, peak_megabytes()))
