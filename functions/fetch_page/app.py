"""A batch of the fetch queue: runs all its jobs at once. Fails message by message."""

from __future__ import annotations

from collections.abc import Sequence

from proxypool.aws.queues import JOBS_GROUP, FetchMessage
from proxypool.jobs import build
from proxypool.jobs.build import WorkerRuntime
from proxypool.network import loop
from proxypool.tasks.handlers import Again, Invocation, QueueHandler
from proxypool.tasks.retry import Delivery, Hold, Retry


def work(worker: WorkerRuntime, deliveries: Sequence[Delivery[FetchMessage]], run: Invocation) -> Again:
    """Runs the jobs. One that failed by our fault comes again; so does one that another run holds, once that run is over."""
    keys = list(dict.fromkeys(delivery.message.job_key for delivery in deliveries))
    outcomes = loop.run(worker.work(keys, seconds=run.seconds_left()))
    run.counts.update({f"count_{name}": number for name, number in outcomes.counts.items()})
    again = {key: Retry(reason) for key, reason in outcomes.again.items()}
    held = {key: Hold(seconds) for key, seconds in outcomes.held.items()}
    by_key: dict[str, Retry | Hold] = {**again, **held}
    return {one.message_id: by_key[one.message.job_key] for one in deliveries if one.message.job_key in by_key}


handler = QueueHandler(
    task="fetch_page",
    kind=FetchMessage,
    queue="fetch",
    make=build.worker_runtime,
    work=work,
    facts=lambda message: {"job": message.job_key.rpartition("/")[2]},
    paused_group=JOBS_GROUP,
)
