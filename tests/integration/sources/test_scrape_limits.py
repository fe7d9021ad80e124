"""Long lists, concurrent runs, limits, and the health rules, on the emulated AWS."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from itertools import count
from typing import Any
from unittest.mock import patch

import jsonschema  # type: ignore[import-untyped]
import pytest
from botocore.client import BaseClient
from proxypool import aws, clock
from proxypool.aws.queues import ScrapeMessage, ValidateMessage, decode
from proxypool.errors import SourceError
from proxypool.proxies.proxy import Status
from proxypool.proxies.record import due_shards
from proxypool.sources.api import changes_from_request
from proxypool.sources.health import Health
from proxypool.sources.scrape.report import NO_ROWS

from tests.support import servers
from tests.support.scrape import ListServer, Pool, addresses, list_server


@pytest.fixture
def pool(aws_endpoint: str) -> Pool:
    """A new pool."""
    aws.client.cache_clear()
    return Pool()


@pytest.fixture
def server() -> Iterator[ListServer]:
    """An HTTP server with a list."""
    with list_server() as running:
        yield running


def _due(pool: Pool) -> int:
    return sum(pool.proxies.count_due(shard) for shard in due_shards(Status.UNCHECKED))


def _validations(pool: Pool) -> list[str]:
    return [decode(body, ValidateMessage).proxy_id for body in pool.bodies(pool.settings.validate_queue_url)]


def test_a_list_with_more_new_proxies_than_the_limit_continues_in_another_message(aws_endpoint: str) -> None:
    """Input 23: no row is dropped silently; the ETag is stored after the last part only."""
    aws.client.cache_clear()
    pool = Pool(source_max_new=100)
    pool.add(inline=addresses(260))

    first = pool.scrape()
    between = pool.source()
    message = next(decode(b, ScrapeMessage) for b in pool.bodies(pool.settings.scrape_queue_url))
    others = [pool.scraper.scrape(message, clock.now())]
    others += [
        pool.scraper.scrape(decode(body, ScrapeMessage), clock.now())
        for body in pool.bodies(pool.settings.scrape_queue_url)
    ]

    assert [run.new for run in (first, *others)] == [100, 100, 60]
    assert (between.body_hash, between.continues) == ("", f"{message.key}#100")
    assert (len(_validations(pool)), _due(pool)) == (260, 260)
    source = pool.source()
    assert (source.new, source.valid, source.continues, source.successes) == (260, 260, "", 1)
    assert source.body_hash


def test_a_run_without_time_left_continues_in_the_next_run(aws_endpoint: str) -> None:
    """Input 23: each run stores at least one slice, so that it terminates."""
    aws.client.cache_clear()
    pool = Pool(source_max_new=100)
    pool.add(inline=addresses(130))
    pool.scrape()
    pool.bodies(pool.settings.scrape_queue_url)
    pool.proxies._model(next(pool.proxies.scan()).id).delete()

    late = pool.scraper.scrape(ScrapeMessage(source_id="list"), clock.now() + timedelta(days=2), seconds_left=lambda: 0)

    assert (late.updated, late.new, late.next_offset) == (99, 1, 100)


def test_a_new_run_supersedes_the_parts_of_the_previous_one(aws_endpoint: str) -> None:
    """Input 23: the row has the counts of the new list."""
    aws.client.cache_clear()
    pool = Pool(source_max_new=100)
    pool.add(inline=addresses(250))
    pool.scrape()

    again = pool.scrape()

    assert (again.new, again.next_offset) == (100, 200)
    assert pool.source().new == 100
    parts = [decode(body, ScrapeMessage) for body in pool.bodies(pool.settings.scrape_queue_url)]
    runs = [pool.scraper.scrape(part, clock.now()) for part in sorted(parts, key=lambda part: part.offset)]
    assert [(run.new, run.skipped) for run in runs] == [(0, "superseded"), (50, "")]


def test_a_part_that_is_delivered_twice_is_processed_once(aws_endpoint: str) -> None:
    """Inputs 23 and 71."""
    aws.client.cache_clear()
    pool = Pool(source_max_new=100)
    pool.add(inline=addresses(220))
    pool.scrape()
    part = next(decode(body, ScrapeMessage) for body in pool.bodies(pool.settings.scrape_queue_url))

    runs = [pool.scraper.scrape(part, clock.now()) for _ in range(2)]

    assert [(run.new, run.skipped) for run in runs] == [(100, ""), (0, "superseded")]


def test_two_concurrent_scrapes_have_one_effect(pool: Pool) -> None:
    """Input 71: one of them claims the source; the check of each new proxy is enqueued once."""
    pool.add(inline=addresses(100))

    with ThreadPoolExecutor(2) as both:
        runs = list(both.map(lambda _: pool.scrape(), range(2)))

    assert sorted(run.skipped for run in runs) in (["", "running"], ["", "not_modified"])
    assert sum(run.new for run in runs) == 100
    assert len(_validations(pool)) == 100


def test_a_claim_expires_and_a_part_that_found_one_is_retried(pool: Pool) -> None:
    """I13: a crash blocks the source for at most the duration of the claim."""
    pool.add(inline=addresses(3))
    pool.sources.update("list", continues="bodies/x#1")
    assert pool.sources.claim("list", clock.now(), seconds=90)

    blocked = pool.scrape()
    part = pool.scraper.scrape(ScrapeMessage(source_id="list", key="bodies/x", offset=1), clock.now())
    later = pool.scrape(days=0.01)

    assert (blocked.skipped, part.skipped, later.new) == ("running", "running", 3)
    waiting = aws.client("sqs").get_queue_attributes(
        QueueUrl=pool.settings.scrape_queue_url, AttributeNames=["ApproximateNumberOfMessagesDelayed"]
    )
    assert waiting["Attributes"]["ApproximateNumberOfMessagesDelayed"] == "1"


def test_an_edit_during_a_run_is_not_overwritten_by_it(pool: Pool) -> None:
    """The ETag of the run belongs to the old list."""
    pool.add(inline=addresses(3))
    claimed = pool.sources.claim("list", clock.now(), seconds=90)
    assert claimed is not None

    changes = changes_from_request({"inline": addresses(2)}, claimed, settings=pool.settings)
    pool.sources.update("list", **changes)

    assert pool.sources.finish(claimed, etag="old", rows=99) is False
    assert (pool.source().etag, pool.source().rows) == ("", 0)
    assert pool.scrape().new == 2


def test_a_failed_run_releases_its_claim(pool: Pool, server: ListServer) -> None:
    """Otherwise its retry would be skipped."""
    server.status = 503
    pool.add(url=server.url)

    with pytest.raises(SourceError, match="http_503"):
        pool.scrape()

    assert pool.source().claim == 0


def test_new_proxies_per_day_are_limited_and_the_rest_is_stored_the_next_day(aws_endpoint: str) -> None:
    """Input 23: rows over the daily limit of a source are counted with their reason."""
    aws.client.cache_clear()
    pool = Pool(source_max_new_per_day=70)
    pool.add(inline=addresses(100))

    today, tomorrow = pool.scrape(), pool.scrape(days=1)

    assert (today.new, today.held_back) == (70, {"per_day": 30})
    assert (tomorrow.new, tomorrow.held_back) == (30, {})
    assert _due(pool) == 100


def test_the_caps_apply_to_public_lists_and_not_to_own_ones(pool: Pool, server: ListServer) -> None:
    """Input 31: no caps for inline, file, S3 and gateway sources."""
    ports = "".join(f"9.9.9.9:{port}\n" for port in range(1_000, 1_100))
    server.body = ports.encode()
    pool.add("stranger", url=server.url)
    pool.add("provider", url=server.url, expect_one_network=True)
    pool.add("own", inline=ports)

    stranger = pool.scrape("stranger")
    provider, own = pool.scrape("provider"), pool.scrape("own")

    assert (stranger.new, dict(stranger.held_back)) == (50, {"per_host": 50})
    assert (provider.new, provider.updated, own.updated) == (50, 50, 100)
    assert pool.source("stranger").held_back == {"per_host": 50}


def test_a_list_over_the_download_limit_stores_nothing(pool: Pool, server: ListServer) -> None:
    """Input 19: read up to 5 MB, then too_large; existing proxies remain."""
    server.body = addresses(10).encode()
    pool.add(url=server.url)
    pool.scrape()
    server.body = b"8.8.8.8:80\n" * 500_000

    with pytest.raises(SourceError, match="too_large"):
        pool.scrape()

    assert len(list(pool.proxies.scan())) == 10


def _good_lists(pool: Pool, server: ListServer, rows: int = 120) -> None:
    """Three scrapes of a list with few changes."""
    for extra in range(3):
        server.body = addresses(rows + extra).encode()
        assert pool.scrape().valid == rows + extra


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"<html><body>Are you human?</body></html>", "far_fewer_rows"),
        (addresses(120, start=100_000).encode(), "mostly_new"),
        ("".join(f"8.0.0.{n}:80\n" for n in range(1, 51)).encode(), "one_network"),
    ],
    ids=["a challenge page", "other proxies", "one /24"],
)
def test_a_suspicious_list_is_reported_and_not_stored(pool: Pool, server: ListServer, body: bytes, reason: str) -> None:
    """Inputs 24 and 25, case 31: suspect, one event, the last good list remains; quarantined after three; recovers without help."""
    pool.add(url=server.url)
    _good_lists(pool, server)
    before = {record.id: record.version for record in pool.proxies.scan()}
    pool.events()
    server.body = body + addresses(50).encode() * (reason == "one_network")

    states = [(pool.scrape().skipped, pool.source().health) for _ in range(4)]

    assert states == [
        (f"suspect: {reason}", Health.SUSPECT),
        (f"suspect: {reason}", Health.SUSPECT),
        (f"suspect: {reason}", Health.QUARANTINED),
        (f"suspect: {reason}", Health.QUARANTINED),
    ]
    assert {record.id: record.version for record in pool.proxies.scan()} == before
    events = pool.events()
    assert [(kind, detail["health"]) for kind, detail in events] == [
        ("source.suspect", "suspect"), ("source.suspect", "quarantined"),
    ]  # fmt: skip
    schema = json.loads((servers.ROOT / "events/bus/source.suspect.schema.json").read_text())
    jsonschema.validate(events[0][1], schema)
    assert (pool.source().enabled, pool.source().empty_streak) == (True, 4)

    server.body = addresses(123).encode()

    assert pool.scrape().new == 1
    assert (pool.source().health, pool.source().empty_streak) == (Health.HEALTHY, 0)


def test_an_operator_can_accept_a_changed_list(pool: Pool, server: ListServer) -> None:
    """Input 25: PATCH accept."""
    pool.add(url=server.url)
    _good_lists(pool, server)
    server.body = addresses(120, start=100_000).encode()
    assert pool.scrape().skipped

    pool.sources.update("list", **changes_from_request({"accept": True}, pool.source(), settings=pool.settings))

    assert pool.scrape().new == 120
    assert pool.source().health is Health.HEALTHY


def test_a_source_without_yield_is_scraped_less_often(pool: Pool) -> None:
    """An empty list is fetched again after one hour, then two, …; the schedule is every 30 minutes."""
    pool.add(inline="# nothing\n")
    pool.scrape()
    now = clock.now()

    due = [pool.scheduler.scrape_all(now + timedelta(minutes=later))["count_enqueued"] for later in (40, 60)]

    assert due == [0, 1]
    assert (pool.source().empty_streak, pool.source().last_error) == (1, NO_ROWS)


MAX_CALLS = 30


class ScrapeCrash(BaseException):
    """The Lambda environment crashed."""


@pytest.mark.parametrize("after", [False, True], ids=["before the call", "after the call"])
def test_a_run_that_crashes_at_any_call_loses_nothing(pool: Pool, after: bool) -> None:
    """I8, I13, input 83: after a crash at each AWS call and a redelivery all proxies are stored, due, and enqueued at most once."""
    make = BaseClient._make_api_call
    for number in range(MAX_CALLS):
        source_id, calls = pool.add(f"list-{number}", inline=addresses(30, start=100 * number)), count()

        def crashing(
            client: Any, operation: str, request: dict[str, Any], calls: Any = calls, number: int = number
        ) -> Any:
            current = next(calls)
            if current > number or (current == number and not after):
                raise ScrapeCrash
            try:
                return make(client, operation, request)
            finally:
                if current == number:
                    raise ScrapeCrash

        with patch.object(BaseClient, "_make_api_call", crashing), suppress(ScrapeCrash):
            pool.scrape(source_id)
        pool.scrape(source_id, days=0.01)

        assert pool.source(source_id).valid == 30
        assert _due(pool) == 30 * (number + 1)
        sent = _validations(pool)
        assert len(sent) == len(set(sent))
        if next(calls) < number:
            return
    raise AssertionError("a run makes more calls than this test covers")
