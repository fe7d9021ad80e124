"""One message of the scrape queue, one source: its list becomes proxies. Fails message by message."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from proxypool import clock, queues, tasks
from proxypool.errors import MessageError, SourceError
from proxypool.proxies.table import ProxyTable
from proxypool.settings import settings
from proxypool.sources.scrape import Scraper
from proxypool.sources.table import SourceTable
from proxypool.state import State

TASK = "scrape_source"


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """The messages that failed, each with its retry arranged; raises KeyError where the event is no batch."""
    failed = [record["messageId"] for record in event["Records"] if not _scrape(record, context)]
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in failed]}


def _scrape(record: dict[str, Any], context: Any) -> bool:
    """Whether the message is done."""
    this = scraper()
    try:
        message = queues.decode(record["body"], queues.ScrapeMessage)
    except MessageError as error:
        _again(record, error.reason, retries=0)
        return False
    source_id, ttl = message.source_id, this.settings.result_ttl_seconds
    run_id = context.aws_request_id
    try:
        with tasks.run(
            TASK, run_id=run_id, state=this.state, result_ttl_seconds=ttl, is_queue_fed=True, source_id=source_id
        ) as run:
            return _attempt(this, message, record, run, lambda: context.get_remaining_time_in_millis() / 1000)
    except Exception as unexpected:
        _again(record, type(unexpected).__name__, source_id=source_id)
        return False


def _attempt(
    this: Scraper,
    message: queues.ScrapeMessage,
    record: dict[str, Any],
    run: tasks.Run,
    seconds_left: Callable[[], float],
) -> bool:
    """Scrapes; False where the source could not be read, which is expected of sources and told with its retry."""
    try:
        run.counts.update(this.scrape(message, clock.now(), seconds_left=seconds_left).counts())
    except SourceError as error:
        run.counts["error"] = error.reason
        pause = error.retry_after_seconds or 0
        retrying = _again(record, error.reason, pause_seconds=pause, source_id=message.source_id)
        number = tasks.attempt(record)
        this.failed(message.source_id, error, clock.now(), attempts=number, is_last=not retrying)
        return False
    return True


def _again(
    record: dict[str, Any], reason: str, *, retries: int | None = None, pause_seconds: int = 0, **facts: Any
) -> bool:
    """Whether the message comes again: after the deployment's delay, or the pause that the source asked for."""
    known = settings()
    return tasks.retry_later(
        record,
        queue_url=known.need("scrape_queue_url"),
        base_seconds=max(known.scrape_retry_seconds, pause_seconds),
        retries=known.scrape_retries if retries is None else retries,
        reason=reason,
        state=scraper().state,
        task=TASK,
        **facts,
    )


@cache
def scraper() -> Scraper:
    """The one of this process."""
    known = settings()
    return Scraper(
        sources=SourceTable(known.need("sources_table")),
        proxies=ProxyTable(known.need("proxies_table")),
        state=State(known.need("state_table")),
        settings=known,
    )
