"""Runs the jobs of a batch of the fetch queue concurrently; partial batch response."""

from __future__ import annotations

from collections.abc import Sequence

from proxypool.aws.queues import JOBS_GROUP, FetchMessage
from proxypool.jobs import build
from proxypool.jobs.build import WorkerRuntime
from proxypool.network import loop
from proxypool.tasks.handlers import Again, Invocation, QueueHandler
from proxypool.tasks.retry import Delivery, Hold, Retry


def work(worker: WorkerRuntime, deliveries: Sequence[Delivery[FetchMessage]], run: Invocation) -> Again:
    """Runs the jobs. A job that failed on our side is retried; one that another run holds is delivered again after its deadline."""
    keys = list(dict.fromkeys(delivery.message.job_key for delivery in deliveries))
    outcomes = loop.run(worker.work(keys, seconds=run.seconds_left()))
    run.counts.update({f"count_{name}": number for name, number in outcomes.counts.items()})
    retries = {key: Retry(reason) for key, reason in outcomes.retries.items()}
    held = {key: Hold(seconds) for key, seconds in outcomes.held.items()}
    by_key: dict[str, Retry | Hold] = {**retries, **held}
    return {
        delivery.message_id: by_key[delivery.message.job_key]
        for delivery in deliveries
        if delivery.message.job_key in by_key
    }


handler = QueueHandler(
    task="fetch_page",
    kind=FetchMessage,
    queue="fetch",
    make=build.build_worker_runtime,
    work=work,
    facts=lambda message: {"job": message.job_key.rpartition("/")[2]},
    paused_group=JOBS_GROUP,
)
