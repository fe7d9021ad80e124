"""What surrounds checks: filing anew, pruning, throttled tables, the operator's rules by the API."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import Any

import boto3
import pytest
from botocore.client import BaseClient
from proxypool import table
from proxypool.checks.check import Reason, TargetVerdict, Verdict
from proxypool.checks.prune import Pruner
from proxypool.checks.validate import Validator
from proxypool.errors import Invalid
from proxypool.manage.listing import QUERY_FIELDS
from proxypool.manage.service import SETTINGS_FIELDS, Manager
from proxypool.proxies.proxy import Protocol, Status
from proxypool.proxies.record import CheckFacts
from proxypool.queues import ValidateMessage, decode
from proxypool.sources.table import SourceTable
from proxypool.state import FROZEN
from proxypool.web import read_fields

from tests.support.builders import NOW
from tests.support.checks import a_validator, at, messages, rows, tell, told


def queued(this: Validator) -> list[ValidateMessage]:
    found = boto3.client("sqs").receive_message(QueueUrl=this.settings.validate_queue_url, MaxNumberOfMessages=10)
    return [decode(one["Body"], ValidateMessage) for one in found.get("Messages", [])]


def test_a_proxy_that_speaks_socks_is_filed_under_socks_and_checked_at_once(
    aws_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    this = a_validator()
    (listed,) = rows(this, 1, status=Status.UNCHECKED)
    tell(monkeypatch, told(Verdict.FAILED, reason=Reason.OTHER_PROTOCOL, spoken=Protocol.SOCKS5))

    this.validate(messages([listed]), seconds=60)

    by_protocol = {row.proxy.protocol: row for row in this.proxies.scan()}
    assert by_protocol[Protocol.HTTP].status is Status.DEAD
    assert by_protocol[Protocol.SOCKS5].status is Status.UNCHECKED
    assert [one.proxy_id for one in queued(this)] == [by_protocol[Protocol.SOCKS5].id]


def test_a_visited_proxy_is_not_visited_again_before_it_has_many_checks(
    aws_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A check goes when it is old and not among the newest; the row then tells how many are left."""
    this = a_validator(check_keep=2)
    (record,) = rows(this, 1, unpruned=0)
    tell(monkeypatch, told(Verdict.PASSED))
    for day in range(5):
        due = this.proxies.get_many([record.id]).values()
        at(this, NOW + timedelta(days=day)).validate(messages(due), seconds=60)
    pruner = Pruner(this.proxies, this.checks, this.state, this.settings)

    first = pruner.old_checks(now=NOW + timedelta(days=20), seconds_left=lambda: 60)
    row = this.proxies.get(record.id)

    assert first == {"count": 3}
    assert row is not None
    assert (row.check.unpruned, row.check.count, len(this.checks.keys(record.id))) == (2, 10, 2)
    reads = Counter[str]()
    _count_queries(monkeypatch, reads)
    assert pruner.old_checks(now=NOW + timedelta(days=21), seconds_left=lambda: 60) == {"count": 0}
    assert reads["Query"] == 0


def _count_queries(patch: pytest.MonkeyPatch, made: Counter[str]) -> None:
    real = BaseClient._make_api_call

    def counted(self: Any, operation: str, parameters: Any) -> Any:
        made[operation] += 1
        return real(self, operation, parameters)

    patch.setattr(BaseClient, "_make_api_call", counted)


@pytest.mark.parametrize(("refusals", "passes"), [(3, True), (99, False)])
def test_a_throttled_table_loses_nothing(
    aws_endpoint: str, monkeypatch: pytest.MonkeyPatch, refusals: int, passes: bool
) -> None:
    """Input 76: refused statements are tried again with growing waits; in the end the messages come again."""
    this = a_validator()
    records = rows(this, 3)
    tell(monkeypatch, told(Verdict.PASSED))
    left, waits = [refusals], list[float]()
    real = BaseClient._make_api_call

    def throttled(self: Any, operation: str, parameters: Any) -> Any:
        if operation == "BatchExecuteStatement" and left[0] > 0:
            left[0] -= 1
            return {"Responses": [{"Error": {"Code": "ThrottlingError"}} for _ in parameters["Statements"]]}
        return real(self, operation, parameters)

    monkeypatch.setattr(BaseClient, "_make_api_call", throttled)
    monkeypatch.setattr("proxypool.table.time.sleep", waits.append)

    if passes:
        assert this.validate(messages(records), seconds=60).counts["passed"] == 3
        assert waits == sorted(waits)
    else:
        with pytest.raises(table.Throttled):
            this.validate(messages(records), seconds=60)
        left[0] = 0
        assert this.validate(messages(records), seconds=60).counts["passed"] == 3


def test_a_result_without_any_fact_is_written(aws_endpoint: str) -> None:
    """A row may hold nothing but its status and instants."""
    this = a_validator()
    (record,) = rows(this, 1, status=Status.UNCHECKED)
    due = messages([record])
    claims = this.proxies.claim_many({record.id: due[record.id].next_check_at}, now=NOW, claim_seconds=150)
    bare = replace(record, claim=claims[record.id], check=CheckFacts(), last_checked_at=NOW)

    assert this.proxies.record_many([bare]) == {record.id}


@pytest.fixture
def manager(aws_endpoint: str) -> tuple[Manager, Validator]:
    this = a_validator()
    return Manager(settings=this.settings, sources=SourceTable("none"), proxies=this.proxies, state=this.state), this


def test_the_operator_sets_target_rules_and_asks_who_serves_a_target(
    manager: tuple[Manager, Validator], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case 7: the verdict belongs to the proxy and the target."""
    admin, this = manager
    good, banned = rows(this, 2)
    admin.change_settings({"targets": [{"url": "https://shop.example/", "contains": ["price"]}]})

    def say(proxy: Any, now: Any) -> Any:
        word = TargetVerdict.OK if proxy == good.proxy else TargetVerdict.BANNED
        return told(Verdict.PASSED, targets={"shop.example": word})(proxy, now)

    tell(monkeypatch, say)
    this.validate(messages([good, banned]), seconds=60)

    listed = admin.list_proxies(read_fields({"target": "shop.example"}, QUERY_FIELDS))["proxies"]
    assert [one["id"] for one in listed] == [good.id]
    assert admin.proxy(banned.id)["targets"]["shop.example"]["verdict"] == "banned"
    assert admin.proxy(banned.id)["status"] == "active"
    assert this._rules()[0].contains == ("price",)


@pytest.mark.parametrize(
    "targets",
    [
        [{"url": "https://169.254.169.254/"}],
        [{"url": "https://shop.example/", "status": "200"}],
        [{"url": "https://shop.example/", "script": "x"}],
        [{"url": f"https://shop{n}.example/"} for n in range(9)],
        ["https://shop.example/"],
    ],
)
def test_a_rule_that_cannot_be_is_refused(manager: tuple[Manager, Validator], targets: Any) -> None:
    """Input 47."""
    with pytest.raises(Invalid):
        manager[0].change_settings(read_fields({"targets": targets}, SETTINGS_FIELDS))


def test_a_freeze_is_seen_and_ended_by_the_settings(manager: tuple[Manager, Validator]) -> None:
    admin, this = manager
    this.state.put(FROZEN, {"sweep_id": "a", "asked": 40, "failed": 40, "at": "2026-11-30T12:00:00.000Z"})

    assert admin.operator_settings()["frozen"]["failed"] == 40
    assert admin.change_settings({"frozen": False})["frozen"] is None
    with pytest.raises(Invalid):
        admin.change_settings({"frozen": True})
