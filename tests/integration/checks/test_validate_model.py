"""The record of a proxy equals a fold of its checks, for any results and times; and the cost of a check."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from random import Random
from typing import Any

import pytest
from botocore.client import BaseClient
from proxypool import aws
from proxypool.checks.check import Check, JudgeKind, Reason, TargetVerdict, Verdict
from proxypool.checks.rules.status import apply_check
from proxypool.checks.validate import Validator
from proxypool.proxies.proxy import Anonymity, Protocol, Proxy, Status
from proxypool.proxies.record import CheckFacts, LeaseFacts, ProxyRecord, TargetFact
from proxypool.proxies.table import to_item

from tests.support.builders import NOW, a_record
from tests.support.checks import a_validator, add_records, at_time, check_from_facts, messages, returning, stub_checks

ROUNDS = 12


def random_checks(rng: Random) -> Any:
    """A stub with random checks."""

    def stub(proxy: Proxy, now: datetime) -> Check:
        verdict = rng.choice([Verdict.PASSED] * 3 + [Verdict.FAILED] * 2 + [Verdict.INCONCLUSIVE])
        if verdict is not Verdict.PASSED:
            return returning(verdict)(proxy, now)
        return returning(
            verdict, latency_ms=round(rng.uniform(10, 900), 1), exits=(f"127.0.0.{rng.randint(2, 9)}",),
            https=rng.choice([True, False, None]), tampered=rng.random() < 0.1, signed=True, basis=JudgeKind.RAW,
            country=rng.choice(["de", "us"]), region="be", asn=64_496, anonymity=rng.choice(list(Anonymity)),
            targets={"shop.example": rng.choice(list(TargetVerdict))},
        )(proxy, now)  # fmt: skip

    return stub


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_record_equals_the_fold_of_its_checks(aws_endpoint: str, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """I10: replayed from the checks table, oldest first, onto the initial record; freezes included."""
    rng, validator, now = Random(seed), a_validator(freeze_min_asked=3), NOW
    initial = add_records(validator, 3, status=Status.UNCHECKED) + add_records(validator, 3, first=10)
    stub_checks(monkeypatch, random_checks(rng))

    for number in range(ROUNDS):
        due = validator.proxies.get_many(one.id for one in initial).values()
        at_time(validator, now).validate(messages(due, sweep_id=str(number)), seconds=60)
        now += timedelta(seconds=rng.randint(60, 90_000))

    for row in initial:
        stored = validator.proxies.get(row.id)
        checks = [check_from_facts(row.id, facts) for facts in validator.checks.newest_first(row.id, now=NOW)]
        assert len(checks) == ROUNDS
        assert stored is not None
        assert_equal_records(stored, _apply_all(row, reversed(checks)))


def _apply_all(row: ProxyRecord, checks: Iterator[Check]) -> ProxyRecord:
    for check in checks:
        row = apply_check(row, check, active_seconds=600, dead_seconds=21_600)
    return row


def assert_equal_records(stored: ProxyRecord, expected: ProxyRecord) -> None:
    for name in ("status", "last_checked_at", "next_check_at"):
        assert getattr(stored, name) == getattr(expected, name), name
    for name in CheckFacts.__slots__:
        actual, wanted = getattr(stored.check, name), getattr(expected.check, name)
        if isinstance(wanted, float):
            assert math.isclose(actual, wanted, abs_tol=0.01), name  # the table stores four digits
        else:
            assert actual == wanted, name


@contextmanager
def counting_units(validator: Validator) -> Iterator[Counter[str]]:
    """Counts write units as DynamoDB bills them: one per kilobyte, and the old and new index keys if they differ."""
    units: Counter[str] = Counter()
    real, client = BaseClient._make_api_call, aws.client("dynamodb")

    def row(proxy_id: str) -> dict[str, Any]:
        item: dict[str, Any] = real(
            client, "GetItem", {"TableName": validator.proxies.table_name, "Key": {"proxy_id": {"S": proxy_id}}}
        )["Item"]
        return item

    def counted(self: Any, operation: str, parameters: Any) -> Any:
        if operation == "BatchWriteItem":
            puts = parameters["RequestItems"].get(validator.checks.table_name, [])
            units["check"] += sum(_kilobytes(put["PutRequest"]["Item"]) for put in puts)
            return real(self, operation, parameters)
        if operation != "BatchExecuteStatement":
            return real(self, operation, parameters)
        ids = [_proxy_id(statement) for statement in parameters["Statements"]]
        before = {proxy_id: row(proxy_id) for proxy_id in ids}
        response = real(self, operation, parameters)
        for proxy_id in ids:
            after = row(proxy_id)
            units["row"] += max(_kilobytes(before[proxy_id]), _kilobytes(after))
            units["index"] += 2 * (_key(before[proxy_id]) != _key(after))
        return response

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BaseClient, "_make_api_call", counted)
        yield units


def _proxy_id(statement: dict[str, Any]) -> str:
    return next(str(parameter["S"]) for parameter in statement["Parameters"] if len(parameter.get("S", "")) == 20)


def _key(item: dict[str, Any]) -> tuple[Any, Any]:
    return item["due_shard"], item["next_check_at"]


def _kilobytes(item: dict[str, Any]) -> int:
    return math.ceil(size(item) / 1024)


def size(value: Any) -> int:
    """Bytes of an item as DynamoDB counts them: names and values, one byte per two digits of a number, three for a map
    or list.
    """
    total = 0
    for name, typed in value.items():
        total += len(name.encode()) + _size(typed)
    return total


def _size(typed: dict[str, Any]) -> int:
    kind, value = next(iter(typed.items()))
    if kind == "M":
        return 3 + sum(1 + len(name) + _size(item) for name, item in value.items())
    if kind == "L":
        return 3 + sum(1 + _size(item) for item in value)
    if kind == "SS":
        return 3 + sum(map(len, value))
    if kind == "N":
        return (len(str(value)) + 1) // 2 + 1
    return len(value) if kind == "S" else 1


@pytest.mark.parametrize("verdict", [Verdict.PASSED, Verdict.FAILED])
@pytest.mark.parametrize("status", [Status.ACTIVE, Status.UNCHECKED])
def test_a_check_costs_five_write_units(
    aws_endpoint: str, monkeypatch: pytest.MonkeyPatch, verdict: Verdict, status: Status
) -> None:
    """Claim 1, result 1 plus 2 for the changed index key, check 1; including index writes."""
    validator, count = a_validator(), 10
    records = add_records(validator, count, status=status)
    stub_checks(monkeypatch, returning(verdict))

    with counting_units(validator) as units:
        validator.validate(messages(records), seconds=60)

    assert units == {"row": 2 * count, "index": 2 * count, "check": count}


def test_a_full_item_is_under_a_kilobyte() -> None:
    """Rotating IPv6 exits, eight target rules, credentials, tags and sources."""
    facts = CheckFacts(
        passed=123.4567, failed=12.3456, count=4_000, unpruned=1_100, failures_in_row=2, latency_ms=1234.5678,
        jitter_ms=123.4567, exit_ip="2001:db8:1111:2222:3333:4444:5555:6666", country="us", region="ca", asn=4_200_000_000,
        exits=tuple(f"2001:db8:1111:2222:3333:4444:5555:{n}666" for n in range(3)), anonymity=Anonymity.ELITE, https=True,
        signed=True, anonymity_basis=JudgeKind.CLOUDFRONT, reason=Reason.CONTENT_MISMATCH, blame="proxy", interval_seconds=604_800,
        checks_since_full=5, targets={f"www.target{n}.example.com": TargetFact(verdict="banned", at=NOW) for n in range(8)},
        last_success_at=NOW,
    )  # fmt: skip
    record = a_record(
        proxy=Proxy(Protocol.SOCKS5, "gate.provider.example", 10_000, "customer-1234-session-{session}", "p" * 24),
        status=Status.ACTIVE, tags=frozenset({"residential", "paid"}), sources=frozenset({f"s{n}" * 8 for n in range(2)}),
        last_checked_at=NOW, next_check_at=NOW, check=facts, claim=1_796_029_200_000, version=1_796_029_200_000,
        lease=LeaseFacts(ok=123.4567, bad=12.3456, granted=100_000, journal_id="1796029200000-123"),
    )  # fmt: skip

    assert size(to_item(record).serialize()) <= 1_024
