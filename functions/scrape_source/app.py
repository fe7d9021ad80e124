"""One message of the scrape queue, one source: reads its list and stores the proxies. Fails message by message."""

from __future__ import annotations

from collections.abc import Sequence

from proxypool import clock
from proxypool.aws.queues import ScrapeMessage
from proxypool.errors import SourceError
from proxypool.sources import build
from proxypool.sources.scrape.scraper import Scraper
from proxypool.tasks.handlers import Again, Invocation, QueueHandler
from proxypool.tasks.retry import Delivery, Retry

RESERVE_SECONDS = 15.0  # of the invocation: what is not read by then is left to the next message


def work(scraper: Scraper, deliveries: Sequence[Delivery[ScrapeMessage]], run: Invocation) -> Again:
    """Scrapes one source. One that cannot be read is expected: it is retried, later if it asked for a pause."""
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
    make=build.scraper,
    work=work,
    facts=lambda message: {"source_id": message.source_id},
    one_run_each=True,
    reserve_seconds=RESERVE_SECONDS,
)
