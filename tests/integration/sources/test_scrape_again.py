"""Repeated scrapes of a list: writes, skipped rows, conditional requests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from proxypool import aws, clock
from proxypool.aws.queues import ValidateMessage, decode
from proxypool.proxies.proxy import Kind, Protocol, Status
from proxypool.proxies.record import CheckFacts, due_shards
from proxypool.proxies.table import ProxyTable
from proxypool.sources.api import changes_from_request
from proxypool.sources.formats import parse

from tests.support.scrape import ListServer, Pool, addresses, counted_calls, list_server


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


def test_the_second_scrape_of_5000_lines_writes_fewer_than_50_items(pool: Pool, tmp_path: Path) -> None:
    """One line differs, so that the list is not skipped; I8: each row is due."""
    file, lines = tmp_path / "list.txt", addresses(5_000)
    file.write_text(lines)
    pool.add(path=str(file))
    first = pool.scrape_all()
    file.write_text(lines + "9.9.9.9:8080\n")

    with counted_calls() as calls:
        second = pool.scrape()

    assert sum(run.new for run in first) == 5_000
    assert (second.new, second.updated, second.rows) == (1, 0, 5_001)
    assert calls.written < 50
    assert calls.read < 50
    assert sum(pool.proxies.count_due(shard) for shard in due_shards(Status.UNCHECKED)) == 5_001


def test_a_row_is_read_again_after_a_day_and_last_seen_is_written_once(pool: Pool) -> None:
    """`last_seen_at` is written at most once a day, also for an unchanged list."""
    pool.add(inline=addresses(30))
    pool.scrape()

    same_day, next_day, again = pool.scrape(days=0.9), pool.scrape(days=1.01), pool.scrape(days=1.5)

    assert (same_day.skipped, again.skipped) == ("not_modified", "not_modified")
    assert (next_day.new, next_day.updated) == (0, 30)
    assert {record.version - clock.epoch_ms(record.first_seen_at) < 1_001 for record in pool.proxies.scan()} == {True}
    assert {(record.last_seen_at - record.first_seen_at).days for record in pool.proxies.scan()} == {1}


def test_a_lost_digest_costs_reads_and_no_writes(pool: Pool) -> None:
    """The digest is a cache of the table."""
    pool.add(inline=addresses(200))
    pool.scrape()
    aws.client("s3").delete_object(Bucket=pool.settings.bodies_bucket, Key="seen/list")
    pool.sources.update("list", body_hash="")

    with counted_calls() as calls:
        again = pool.scrape()

    assert (again.new, again.updated) == (0, 0)
    assert calls.read == 200
    assert calls.written < 10


def test_an_unchanged_list_is_requested_with_validators_and_read_completely_once_a_day(
    pool: Pool, server: ListServer
) -> None:
    """Input 29: ETag and Last-Modified; a server that always answers 304 is trusted for at most a day."""
    server.body, server.headers = (
        addresses(3).encode(),
        {"etag": '"one"', "last-modified": "Mon, 30 Nov 2026 06:00:00 GMT"},
    )
    pool.add(url=server.url)
    pool.scrape()
    server.status = 304

    unchanged = pool.scrape()
    server.status = 200
    pool.scrape(days=1.1)

    assert unchanged.skipped == "not_modified"
    assert (server.asked[1]["if-none-match"], server.asked[1]["if-modified-since"]) == (
        '"one"', "Mon, 30 Nov 2026 06:00:00 GMT",
    )  # fmt: skip
    assert "if-none-match" not in server.asked[2]


def test_the_scrape_after_an_edit_reads_the_whole_list(pool: Pool, server: ListServer) -> None:
    """Input 29: no ETag loop; new tags reach the known rows."""
    server.body, server.headers = addresses(3).encode(), {"etag": '"one"'}
    pool.add(url=server.url)
    pool.scrape()

    pool.sources.update("list", **changes_from_request({"tags": ["eu"]}, pool.source(), settings=pool.settings))
    after = pool.scrape()

    assert "if-none-match" not in server.asked[1]
    assert after.updated == 3
    assert {record.tags for record in pool.proxies.scan()} == {frozenset({"eu"})}


def test_a_retired_proxy_is_not_added_again_until_it_is_restored(pool: Pool) -> None:
    """The row is a tombstone; after the restore it is unchecked and due."""
    pool.add(inline=addresses(3))
    pool.scrape()
    record = next(pool.proxies.scan())
    assert pool.proxies.retire(record.id)
    pool.sources.update("list", body_hash="")

    again, later = pool.scrape(), pool.scrape(days=2)
    removed = pool.proxies.get(record.id)

    assert (again.new, later.new) == (0, 0)
    assert removed is not None
    assert removed.status is Status.RETIRED
    assert pool.proxies.restore(record.id, now=clock.now())
    assert not pool.proxies.restore(record.id, now=clock.now())
    restored = pool.proxies.get(record.id)
    assert restored is not None
    assert (restored.status, restored.sources) == (Status.UNCHECKED, frozenset({"list"}))
    assert record.id in dict(pool.proxies.due(_shard(record.id), before=clock.now(), limit=10))


def _shard(proxy_id: str) -> str:
    return f"unchecked#{int(proxy_id[:8], 16) % 16:02d}"


def test_a_pruned_proxy_is_added_again_within_a_day(pool: Pool) -> None:
    """The digest delays the new row by at most a day."""
    pool.add(inline=addresses(3))
    pool.scrape()
    record = next(pool.proxies.scan())
    pool.proxies._model(record.id).delete()

    assert pool.scrape(days=1.01).new == 1

    added = pool.proxies.get(record.id)
    assert added is not None
    assert added.status is Status.UNCHECKED
    assert added.first_seen_at > record.first_seen_at


def test_an_upsert_stores_at_most_max_new_proxies(aws_endpoint: str) -> None:
    """ProxyTable.upsert_many counts the rest as held back."""
    aws.client.cache_clear()
    table = ProxyTable(Pool().settings.proxies_table)
    proxies = parse("lines", addresses(10).encode(), default_protocol=Protocol.HTTP).proxies

    result = table.upsert_many(proxies, source_id="a", kind=Kind.UNKNOWN, tags=frozenset(), now=clock.now(), max_new=4)

    assert (len(result.new), result.held_back, result.unchanged, result.known) == (4, 6, 0, ())


def test_the_yield_and_the_exclusive_count_are_updated_by_the_daily_read(pool: Pool) -> None:
    """Source health as data: exclusive, alive yield after 24 h."""
    pool.add(inline=addresses(4))
    pool.add("other", inline=addresses(1))
    pool.scrape()
    pool.scrape("other")
    first, *_ = records = sorted(pool.proxies.scan(), key=lambda record: len(record.sources), reverse=True)
    messages = {m.proxy_id: m.next_check_at for m in _validations(pool)}
    claims = pool.proxies.claim_many(messages, now=clock.now(), claim_seconds=60)
    done = [
        replace(
            record, claim=claims[record.id], last_checked_at=clock.now(), next_check_at=clock.now() + timedelta(hours=1),
            status=Status.ACTIVE if record is first else Status.DEAD, check=CheckFacts(count=1),
        )
        for record in records
    ]  # fmt: skip
    assert len(pool.proxies.record_many(done)) == 4

    pool.scrape(days=1.01)

    source = pool.source()
    assert (source.exclusive, source.aged_count, source.alive, source.alive_yield) == (3, 4, 1, 0.25)


def _validations(pool: Pool) -> list[ValidateMessage]:
    return [decode(body, ValidateMessage) for body in pool.bodies(pool.settings.validate_queue_url)]
