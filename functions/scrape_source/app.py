"""Scrapes the source of one message of the scrape queue; partial batch response."""

from __future__ import annotations

from collections.abc import Sequence

from proxypool import clock
from proxypool.aws.queues import ScrapeMessage
from proxypool.errors import SourceError
from proxypool.sources import build
from proxypool.sources.scrape.scraper import Scraper
from proxypool.tasks.handlers import Again, Invocation, QueueHandler
from proxypool.tasks.retry import Delivery, Retry

RESERVE_SECONDS = 15.0  # of the invocation; the rest of the list is left to the next message


def work(scraper: Scraper, deliveries: Sequence[Delivery[ScrapeMessage]], run: Invocation) -> Again:
    """Scrapes one source. A source that cannot be read is not an error of the task: it is retried, respecting Retry-After."""
    (delivery,) = deliveries
    try:
        run.counts.update(scraper.scrape(delivery.message, clock.now(), seconds_left=run.seconds_left).counts())
    except SourceError as error:
        run.counts["error"] = error.reason
        attempts, is_last = delivery.attempt, delivery.is_last
        scraper.failed(delivery.message.source_id, error, clock.now(), attempts=attempts, is_last=is_last)
        return {delivery.message_id: Retry(error.reason, min_seconds=error.retry_after_seconds or 0)}
    return {}


handler = QueueHandler(
    task="scrape_source",
    kind=ScrapeMessage,
    queue="scrape",
    make=build.build_scraper,
    work=work,
    facts=lambda message: {"source_id": message.source_id},
    one_run_each=True,
    reserve_seconds=RESERVE_SECONDS,
)
