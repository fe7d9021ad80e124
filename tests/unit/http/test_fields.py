"""Rows, answers and requests made from the fields of the records. The rows below were written before records declared them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from proxypool.errors import Invalid
from proxypool.http.codec import Meta
from proxypool.http.fields import json_schema, request_fields, to_arguments, to_attributes, to_json, to_row
from proxypool.http.operation import INTEGER
from proxypool.http.web import Field, read_fields
from proxypool.jobs.job import Crawl, Job, JobRequest, JobState
from proxypool.jobs.store.table import JobItem
from proxypool.leases.pool import Lease
from proxypool.proxies.proxy import Anonymity, Kind, Protocol, Proxy, Status
from proxypool.proxies.record import CheckFacts, LeaseFacts, ProxyRecord, TargetFact
from proxypool.proxies.table import from_image, to_item
from proxypool.sources.record import Source
from proxypool.sources.table import SourceItem
from pynamodb.models import Model

T = datetime(2026, 11, 30, 4, 19, 24, tzinfo=UTC)
OLD_ROWS: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "old_rows.json").read_text())

SOURCE = Source(
    source_id="a", name="A", url="https://a.example/{secret}", inline="x", s3="uploads/x", path="p", allow_http=True,
    allow_private=True, expect_one_network=True, headers=("X: {secret}",), secret="proxypool/sources/a", timeout_seconds=7,
    parser="lines", protocol=Protocol.SOCKS5, kind=Kind.MOBILE, slots=3, tags=frozenset({"t"}), enabled=False,
    schedule="rate(1 hour)", created_at=T, claim=5, continues="c", etag="e", last_modified="m", body_hash="h", read_at=T,
    last_scraped_at=T, last_success_at=T, not_before_at=T, stale_notified_at=T, rows=9, valid=8, new=7, rejected={"port": 1},
    held_back={"per_day": 2}, new_on="2026-11-30", new_today=6, exclusive=5, aged_count=4, alive=3, baseline_rows=8,
    successes=2, anomaly_streak=1, suspicion="mostly_new", empty_streak=1, trend=(7, 8), consecutive_failures=1,
    last_error="timeout",
)  # fmt: skip
PROXY = ProxyRecord(
    proxy=Proxy(Protocol.HTTP, "198.51.100.1", 8080, "user", "pass"), status=Status.ACTIVE, kind=Kind.MOBILE,
    tags=frozenset({"t"}), sources=frozenset({"s"}), allow_private=True, first_seen_at=T, last_seen_at=T, last_checked_at=T,
    next_check_at=T, slots=2, claim=5, version=6, lease=LeaseFacts(ok=1.5, bad=2.5, granted=3, journal_id="1-1"),
    check=CheckFacts(
        passed=1.25, failed=2.5, count=3, unpruned=1, failures_in_row=1, latency_ms=12.5, jitter_ms=1.5, exit_ip="203.0.113.7",
        exits=("203.0.113.8",), country="us", region="ca", asn=64500, anonymity=Anonymity.ELITE, anonymity_basis="raw",
        https=True, tampered=True, signed=True, reason="timeout", blame="proxy", interval_seconds=600, last_success_at=T,
        checks_since_full=2, targets={"shop.example": TargetFact(verdict="ok", at=T)},
    ),
)  # fmt: skip
NEW_PROXY = ProxyRecord(proxy=Proxy(Protocol.HTTP, "198.51.100.1", 8080), first_seen_at=T, last_seen_at=T, version=1)
JOB = Job(
    owner="ann", id="j", state=JobState.DONE, runs=2, replays=1, token="t", deadline_ms=5, attempts=2, processed=True,
    reason="r", result_key="k", received_bytes=9, created_ms=1, updated_ms=2,
    request=JobRequest(
        url="https://shop.example/", method="POST", headers={"a": "b"}, body="x", session_id="s", lease={"country": "de"},
        max_attempts=2, transform={"name": "json"}, must_contain=("a",), must_not_contain=("b",),
        allow_plaintext_secrets=True, crawl=Crawl(depth=2, max_pages=3, include=("x",)), batch="b",
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A record with a field of each way to be required or absent."""

    name: str = field(metadata=Meta(request=Field(pattern="[a-z]+"), shown={}))
    note: str = field(default="", metadata=Meta(optional=True, shown={"description": "if there is one"}))
    kind: Kind = field(default=Kind.MOBILE, metadata=Meta(request=Field()))
    size: int | None = field(default=None, metadata=Meta(stored="s", shown={}))
    hidden: bool = False


def test_the_examples_set_each_field() -> None:
    for record in (SOURCE, PROXY, PROXY.check, PROXY.lease, JOB):
        empty = [one.name for one in fields(record) if getattr(record, one.name) == one.default]
        assert not empty, record


@pytest.mark.parametrize(
    ("name", "item"),
    [
        ("source", SourceItem(**to_row(SOURCE))),
        ("proxy", to_item(PROXY)),
        ("new proxy", to_item(NEW_PROXY)),
        ("job", JobItem("ann/j", owner_state="ann#done", batch_key="ann#b", expires_at=9, **to_row(JOB))),
    ],
)
def test_a_row_is_written_as_before(name: str, item: Model) -> None:
    written = {attribute: value for attribute, value in item.serialize().items() if value is not None}

    assert written == OLD_ROWS[name]


def test_an_old_row_is_read_as_the_record_that_it_was() -> None:
    source, job = SourceItem(), JobItem()
    source.deserialize(dict(OLD_ROWS["source"]))
    job.deserialize(dict(OLD_ROWS["job"]))

    assert Source(**to_arguments(Source, source.attribute_values)) == SOURCE
    assert Job(owner="ann", id="j", **to_arguments(Job, job.attribute_values)) == JOB
    assert from_image(OLD_ROWS["proxy"]) == PROXY
    assert from_image(OLD_ROWS["new proxy"]) == NEW_PROXY


def test_a_change_of_an_unknown_field_is_an_error_and_an_empty_value_removes_the_attribute() -> None:
    assert to_attributes(Source, {"name": "", "headers": (), "rows": 0, "enabled": False}) == {
        "name": None, "headers": None, "rows": 0, "enabled": False,
    }  # fmt: skip
    with pytest.raises(KeyError):
        to_attributes(Source, {"stale_told_at": T})


def test_an_answer_has_what_is_shown_and_fits_its_schema() -> None:
    """Without credentials: neither the password of a proxy, nor the value of a source's header."""
    lease = Lease(
        id="l",
        proxy_id="p",
        proxy_url="http://p:1",
        protocol=Protocol.HTTP,
        score=0.5,
        fence="1-0",
        granted_at=T,
        expires_at=T,
    )
    for record in (SOURCE, PROXY, JOB, lease, replace(lease, session_id="s", moved=False)):
        answer, expected = json.loads(json.dumps(to_json(record))), json_schema(type(record))
        assert set(expected["required"]) <= answer.keys() <= expected["properties"].keys()
        assert "pass" not in str(answer)
        assert "{secret}" not in str(answer.get("headers"))
    assert "moved" not in to_json(lease)
    assert to_json(replace(lease, session_id="s", moved=False))["moved"] is False


def test_a_field_declares_its_request_its_answer_and_its_schema() -> None:
    asked = request_fields(Example)

    assert read_fields({"name": "a"}, asked) == {"name": "a", "kind": "mobile"}
    with pytest.raises(Invalid):
        read_fields({}, asked)
    with pytest.raises(Invalid):
        read_fields({"name": "a", "kind": "other"}, asked)
    assert Example(**to_arguments(Example, {"name": "a", "kind": "residential"})).kind is Kind.RESIDENTIAL
    assert to_json(Example(name="a")) == {"name": "a", "size": None}
    assert json_schema(Example)["required"] == ["name", "size"]
    assert json_schema(Example)["properties"]["size"] == {**INTEGER, "type": ["integer", "null"]}
    assert json_schema(Example)["properties"]["note"] == {"type": "string", "description": "if there is one"}
