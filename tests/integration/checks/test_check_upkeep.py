"""Around the checks: storing detected protocols, pruning, throttled tables, target rules through the API."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import Any

import boto3
import pytest
from botocore.client import BaseClient
from proxypool.aws import dynamodb
from proxypool.aws.queues import ValidateMessage, decode
from proxypool.aws.state import FROZEN
from proxypool.checks.check import Reason, TargetVerdict, Verdict
from proxypool.checks.prune import Pruner
from proxypool.checks.validate import Validator
from proxypool.errors import Invalid
from proxypool.http.web import read_fields
from proxypool.manage.listing import LIST_PROXIES_QUERY
from proxypool.manage.service import SETTINGS_FIELDS, Manager
from proxypool.proxies.proxy import Protocol, Status
from proxypool.proxies.record import CheckFacts
from proxypool.sources.table import SourceTable

from tests.support.builders import NOW
from tests.support.checks import a_validator, add_records, at_time, messages, returning, stub_checks


def queued_messages(validator: Validator) -> list[ValidateMessage]:
    response = boto3.client("sqs").receive_message(
        QueueUrl=validator.settings.validate_queue_url, MaxNumberOfMessages=10
    )
    return [decode(message["Body"], ValidateMessage) for message in response.get("Messages", [])]


def test_a_proxy_that_speaks_socks_is_stored_as_socks_and_checked_at_once(
    aws_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    validator = a_validator()
    (listed,) = add_records(validator, 1, status=Status.UNCHECKED)
    stub_checks(monkeypatch, returning(Verdict.FAILED, reason=Reason.OTHER_PROTOCOL, detected_protocol=Protocol.SOCKS5))

    validator.validate(messages([listed]), seconds=60)

    by_protocol = {row.proxy.protocol: row for row in validator.proxies.scan()}
    assert by_protocol[Protocol.HTTP].status is Status.DEAD
    assert by_protocol[Protocol.SOCKS5].status is Status.UNCHECKED
    assert [message.proxy_id for message in queued_messages(validator)] == [by_protocol[Protocol.SOCKS5].id]


def test_a_pruned_proxy_is_not_visited_again_before_it_has_many_checks(
    aws_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A check is pruned if it is old and not among the newest; the record then has the number of the remaining ones."""
    validator = a_validator(check_keep=2)
    (record,) = add_records(validator, 1, unpruned=0)
    stub_checks(monkeypatch, returning(Verdict.PASSED))
    for day in range(5):
        due = validator.proxies.get_many([record.id]).values()
        at_time(validator, NOW + timedelta(days=day)).validate(messages(due), seconds=60)
    pruner = Pruner(validator.proxies, validator.checks, validator.state, validator.settings)

    first = pruner.prune_old_checks(now=NOW + timedelta(days=20), seconds_left=lambda: 60)
    row = validator.proxies.get(record.id)

    assert first == {"count": 3}
    assert row is not None
    assert (row.check.unpruned, row.check.count, len(validator.checks.keys(record.id))) == (2, 10, 2)
    reads = Counter[str]()
    _count_calls(monkeypatch, reads)
    assert pruner.prune_old_checks(now=NOW + timedelta(days=21), seconds_left=lambda: 60) == {"count": 0}
    assert reads["Query"] == 0


def _count_calls(monkeypatch: pytest.MonkeyPatch, calls: Counter[str]) -> None:
    real = BaseClient._make_api_call

    def counted(self: Any, operation: str, parameters: Any) -> Any:
        calls[operation] += 1
        return real(self, operation, parameters)

    monkeypatch.setattr(BaseClient, "_make_api_call", counted)


@pytest.mark.parametrize(("refusals", "passes"), [(3, True), (99, False)])
def test_a_throttled_table_loses_nothing(
    aws_endpoint: str, monkeypatch: pytest.MonkeyPatch, refusals: int, passes: bool
) -> None:
    """Input 76: throttled statements are retried with backoff; after the last try the messages are delivered again."""
    validator = a_validator()
    records = add_records(validator, 3)
    stub_checks(monkeypatch, returning(Verdict.PASSED))
    remaining, waits = [refusals], list[float]()
    real = BaseClient._make_api_call

    def throttled(self: Any, operation: str, parameters: Any) -> Any:
        if operation == "BatchExecuteStatement" and remaining[0] > 0:
            remaining[0] -= 1
            return {"Responses": [{"Error": {"Code": "ThrottlingError"}} for _ in parameters["Statements"]]}
        return real(self, operation, parameters)

    monkeypatch.setattr(BaseClient, "_make_api_call", throttled)
    monkeypatch.setattr("proxypool.aws.dynamodb.time.sleep", waits.append)

    if passes:
        assert validator.validate(messages(records), seconds=60).counts["passed"] == 3
        assert waits == sorted(waits)
    else:
        with pytest.raises(dynamodb.Throttled):
            validator.validate(messages(records), seconds=60)
        remaining[0] = 0
        assert validator.validate(messages(records), seconds=60).counts["passed"] == 3


def test_a_result_without_facts_is_written(aws_endpoint: str) -> None:
    """A record may consist of its status and timestamps only."""
    validator = a_validator()
    (record,) = add_records(validator, 1, status=Status.UNCHECKED)
    due = messages([record])
    claims = validator.proxies.claim_many({record.id: due[record.id].next_check_at}, now=NOW, claim_seconds=150)
    bare = replace(record, claim=claims[record.id], check=CheckFacts(), last_checked_at=NOW)

    assert validator.proxies.record_many([bare]) == {record.id}


@pytest.fixture
def manager(aws_endpoint: str) -> tuple[Manager, Validator]:
    validator = a_validator()
    return Manager(
        settings=validator.settings, sources=SourceTable("none"), proxies=validator.proxies, state=validator.state
    ), validator


def test_target_rules_are_set_and_proxies_listed_by_target(
    manager: tuple[Manager, Validator], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case 7: the verdict applies to one proxy and one target."""
    admin, validator = manager
    good, banned = add_records(validator, 2)
    admin.change_settings({"targets": [{"url": "https://shop.example/", "contains": ["price"]}]})

    def stub(proxy: Any, now: Any) -> Any:
        verdict = TargetVerdict.OK if proxy == good.proxy else TargetVerdict.BANNED
        return returning(Verdict.PASSED, targets={"shop.example": verdict})(proxy, now)

    stub_checks(monkeypatch, stub)
    validator.validate(messages([good, banned]), seconds=60)

    listed = admin.list_proxies(read_fields({"target": "shop.example"}, LIST_PROXIES_QUERY))["proxies"]
    assert [proxy["id"] for proxy in listed] == [good.id]
    assert admin.proxy(banned.id)["targets"]["shop.example"]["verdict"] == "banned"
    assert admin.proxy(banned.id)["status"] == "active"
    assert validator._target_rules()[0].contains == ("price",)


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
def test_an_invalid_target_rule_is_rejected(manager: tuple[Manager, Validator], targets: Any) -> None:
    """Input 47."""
    with pytest.raises(Invalid):
        manager[0].change_settings(read_fields({"targets": targets}, SETTINGS_FIELDS))


def test_a_freeze_is_shown_and_ended_through_the_settings(manager: tuple[Manager, Validator]) -> None:
    admin, validator = manager
    validator.state.put(FROZEN, {"sweep_id": "a", "checked": 40, "failed": 40, "at": "2026-11-30T12:00:00.000Z"})

    assert admin.operator_settings()["frozen"]["failed"] == 40
    assert admin.change_settings({"frozen": False})["frozen"] is None
    with pytest.raises(Invalid):
        admin.change_settings({"frozen": True})
