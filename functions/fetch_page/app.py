"""A batch of the fetch queue: many pages at once. Fails message by message."""

from __future__ import annotations

from functools import cache
from typing import Any

from proxypool import queues, state, tasks
from proxypool.errors import MessageError
from proxypool.jobs.build import Bench, bench
from proxypool.jobs.worker import Outcomes
from proxypool.network import loop
from proxypool.queues import FetchMessage
from proxypool.settings import settings

TASK = "fetch_page"
RESERVE_SECONDS = 10.0  # kept of the invocation, to write and to give back


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """The messages that must come again, each with its retry arranged; raises KeyError where the event is no batch."""
    failed: list[str] = []
    readable: list[tuple[dict[str, Any], FetchMessage]] = []
    for record in event["Records"]:
        try:
            readable.append((record, queues.decode(record["body"], FetchMessage)))
        except MessageError as error:
            _again(record, error.reason, retries=0)
            failed.append(record["messageId"])
    if readable:
        failed += _fetch(readable, context)
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in failed]}


def _fetch(readable: list[tuple[dict[str, Any], FetchMessage]], context: Any) -> list[str]:
    """The ids of the messages that must come again."""
    this = worker()
    messages = {message.job_key: message for _, message in readable}
    if state.is_paused(this.state):  # a failure would use up the messages' deliveries: they are put back instead
        url = this.settings.need("fetch_queue_url")
        queues.send(url, messages.values(), group=queues.JOBS_GROUP, delay_seconds=queues.MAX_DELAY_SECONDS)
        return []
    try:
        outcomes = _run(this, list(messages), context)
    except Exception as error:
        for record, _ in readable:
            _again(record, type(error).__name__)
        return [record["messageId"] for record, _ in readable]
    return [record["messageId"] for record, message in readable if _comes_again(record, message.job_key, outcomes)]


def _comes_again(record: dict[str, Any], key: str, outcomes: Outcomes) -> bool:
    if key in outcomes.held:
        tasks.wait(record, queue_url=settings().need("fetch_queue_url"), seconds=outcomes.held[key])
        return True
    if key in outcomes.again:
        _again(record, outcomes.again[key], job=key.rpartition("/")[2])
        return True
    return False


def _run(this: Bench, keys: list[str], context: Any) -> Outcomes:
    run_id, ttl = context.aws_request_id, this.settings.result_ttl_seconds
    with tasks.run(TASK, run_id=run_id, state=this.state, result_ttl_seconds=ttl, is_queue_fed=True) as run:
        seconds = context.get_remaining_time_in_millis() / 1000 - RESERVE_SECONDS
        outcomes = loop.run(this.work(keys, seconds=seconds))
        run.counts.update({f"count_{name}": number for name, number in outcomes.counts.items()})
        return outcomes


def _again(record: dict[str, Any], reason: str, *, retries: int | None = None, **facts: Any) -> None:
    known = settings()
    tasks.retry_later(
        record,
        queue_url=known.need("fetch_queue_url"),
        base_seconds=known.fetch_retry_seconds,
        retries=known.fetch_retries if retries is None else retries,
        reason=reason,
        state=worker().state,
        task=TASK,
        **facts,
    )


@cache
def worker() -> Bench:
    """The one of this process."""
    return bench(settings())
