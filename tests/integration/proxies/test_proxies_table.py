"""The proxies table on the emulated DynamoDB: conditional writes, one effect each."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pytest
from proxypool import aws, clock
from proxypool.proxies.proxy import Kind, Status
from proxypool.proxies.record import CheckFacts, LeaseFacts, due_shards
from proxypool.proxies.table import ProxyTable, to_item

from tests.support import servers
from tests.support.builders import NOW, a_proxy, a_record


@pytest.fixture
def table(aws_endpoint: str) -> ProxyTable:
    aws.client.cache_clear()
    return ProxyTable(servers.create_tables(f"px{uuid4().hex[:8]}-")["ProxiesTable"])


def _fill(table: ProxyTable, count: int, source: str = "a") -> tuple[int, int, int]:
    done = table.upsert_many(
        [a_proxy(n) for n in range(count)], source_id=source, kind=Kind.UNKNOWN, tags=frozenset(), now=NOW
    )
    return len(done.new), done.updated, done.unchanged


def test_a_list_that_did_not_change_writes_nothing(table: ProxyTable) -> None:
    assert _fill(table, 60) == (60, 0, 0)
    assert _fill(table, 60) == (0, 0, 60)
    assert _fill(table, 60, source="b") == (0, 60, 0)


def test_a_claim_is_had_once_and_only_for_the_instant_of_the_message(table: ProxyTable) -> None:
    """I9, inputs 71, 72."""
    _fill(table, 2)
    first, second = (table.get(a_proxy(n).id) for n in (0, 1))
    assert first is not None
    assert second is not None
    assert first.next_check_at is not None
    due = {first.id: clock.epoch(first.next_check_at), second.id: 5}
    claims = table.claim_many(due, now=NOW, claim_seconds=150)
    assert set(claims) == {first.id}
    assert table.claim_many(due, now=NOW, claim_seconds=150) == {}
    assert set(table.claim_many(due, now=NOW + timedelta(seconds=151), claim_seconds=150)) == {first.id}


def test_the_result_of_a_late_loser_is_discarded(table: ProxyTable) -> None:
    """I9, input 72."""
    _fill(table, 1)
    record = table.get(a_proxy(0).id)
    assert record is not None
    assert record.next_check_at is not None
    due = {record.id: clock.epoch(record.next_check_at)}
    early = table.claim_many(due, now=NOW, claim_seconds=10)[record.id]
    late = table.claim_many(due, now=NOW + timedelta(seconds=20), claim_seconds=10)[record.id]
    result = replace(record, status=Status.ACTIVE, last_checked_at=NOW, check=CheckFacts(passed=1, count=1))
    assert table.record_many([replace(result, claim=early)]) == set()
    assert table.record_many([replace(result, claim=late)]) == {record.id}
    stored = table.get(record.id)
    assert stored is not None
    assert (stored.status, stored.claim, stored.check) == (Status.ACTIVE, 0, result.check)


def test_evidence_is_folded_above_its_journal_id_only(table: ProxyTable) -> None:
    """I23: a replayed journal changes nothing."""
    _fill(table, 1)
    facts = LeaseFacts(ok=1, granted=1, journal_id="0000000000002-000000")
    assert table.fold_lease(a_proxy(0).id, facts)
    assert not table.fold_lease(a_proxy(0).id, facts)
    assert not table.fold_lease(a_proxy(0).id, replace(facts, journal_id="0000000000001-000009"))


def test_a_retired_proxy_is_due_nowhere_and_no_list_revives_it(table: ProxyTable) -> None:
    _fill(table, 1)
    assert table.retire(a_proxy(0).id)
    assert _fill(table, 1, source="b") == (0, 0, 1)
    stored = table.get(a_proxy(0).id)
    assert stored is not None
    assert stored.status is Status.RETIRED
    assert not any(
        table.due(shard, before=NOW + timedelta(days=9), limit=9) for status in Status for shard in due_shards(status)
    )


def test_a_row_survives_the_way_through_the_table_and_is_under_a_kilobyte(table: ProxyTable) -> None:
    record = a_record(
        1, proxy=a_proxy(1, username="user", password="p" * 64), tags=frozenset({"a", "b"}), sources=frozenset({"s" * 36}),
        last_checked_at=NOW, next_check_at=NOW + timedelta(seconds=600), lease=LeaseFacts(ok=1.5, granted=2, journal_id="1"),
        check=CheckFacts(passed=1.25, failed=2, count=3, latency_ms=12.5, exit_ip="203.0.113.7", country="us", https=True, last_success_at=NOW),
    )  # fmt: skip
    aws.client("dynamodb").put_item(TableName=table.table_name, Item=to_item(record).serialize())
    assert table.get(record.id) == record
    assert len(str(to_item(record).serialize())) < 1_400  # with the quotes and type marks of its JSON
