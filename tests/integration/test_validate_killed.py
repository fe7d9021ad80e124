"""An invocation that is killed at any call of it, before or after the call's effect: nobody is lost, nobody counted twice."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from typing import Any

import boto3
import pytest
from botocore.client import BaseClient
from proxypool.checks.check import Check, Verdict
from proxypool.checks.validate import Validator
from proxypool.proxies.proxy import Proxy, Status
from proxypool.proxies.record import ProxyRecord, due_shards

from tests.support.builders import NOW
from tests.support.checks import a_validator, at, messages, rows, tell, told

CALLS = 40  # more than a batch makes


class Killed(BaseException):
    """The process is gone: nothing of it runs any further."""


@contextmanager
def killed_at(call: int, *, after: bool) -> Iterator[list[str]]:
    """The process makes `call` calls to AWS, the last one with or without its effect; yields the calls it made."""
    made: list[str] = []
    real = BaseClient._make_api_call

    def counted(self: Any, operation: str, parameters: Any) -> Any:
        made.append(operation)
        if len(made) < call:
            return real(self, operation, parameters)
        if len(made) == call and after:
            real(self, operation, parameters)
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BaseClient, "_make_api_call", counted)
        yield made


def is_due(this: Validator, row: ProxyRecord) -> bool:
    """Whether a sweep finds it, sooner or later (the index is what sweeps read)."""
    far = NOW + timedelta(days=8)
    return any(row.id in dict(this.proxies.due(shard, before=far, limit=100)) for shard in due_shards(row.status))


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_batch_killed_at_any_call_leaves_each_proxy_validated_once_or_due(
    aws_endpoint: str, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    """I8, I9, I13, input 83: for every k, killed at the k-th call, then delivered again."""

    def say(proxy: Proxy, now: Any) -> Check:
        return told(Verdict.PASSED if proxy.port % 2 else Verdict.FAILED)(proxy, now)

    tell(monkeypatch, say)
    this, later = a_validator(), NOW + timedelta(seconds=900)  # the queue's visibility is longer than a claim
    ended, k = False, 0
    while not ended:
        k += 1
        assert k < CALLS, "a batch makes fewer calls"
        active, new = rows(this, 2), rows(this, 2, status=Status.UNCHECKED, first=10)
        asked = messages([*active, *new], sweep_id="a")

        with killed_at(k, after=after) as made:
            with suppress(Killed):
                this.validate(asked, seconds=60)
            ended = len(made) < k
        _once_or_due(this, active + new)
        at(this, later).validate(asked, seconds=60)

        done = _once_or_due(this, active + new)
        assert all(row.claim == 0 for row in done)
        assert [row.check.count for row in done] == [6, 6, 1, 1], (k, made)
        _empty(this)
    assert k > 8  # claim, read, rules, mark, result, check, event, …


def _once_or_due(this: Validator, records: list[ProxyRecord]) -> list[ProxyRecord]:
    """The rows now; each was validated once at most, and is due again."""
    now = this.proxies.get_many(one.id for one in records)
    found = [now[one.id] for one in records]
    for before, row in zip(records, found, strict=True):
        made = row.check.count - before.check.count
        assert made in (0, 1)
        assert len(this.checks.keys(row.id)) <= made  # a record may be lost with the process, and none is invented
        assert is_due(this, row)
        if not made:
            assert row.next_check_at == before.next_check_at
    return found


def _empty(this: Validator) -> None:
    for row in this.proxies.scan():
        this.checks.delete(row.id, this.checks.keys(row.id))
        boto3.client("dynamodb").delete_item(TableName=this.proxies.table_name, Key={"proxy_id": {"S": row.id}})


def test_a_slow_run_whose_claim_is_over_changes_nothing_any_more(
    aws_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I9, inputs 71, 72: another run has claimed and checked meanwhile, and the late result bounces off."""
    this = a_validator()
    (record,) = rows(this, 1)
    asked = messages([record])

    def slow(proxy: Proxy, now: datetime) -> Check:
        if now > NOW:
            return told(Verdict.PASSED)(proxy, now)
        with ThreadPoolExecutor(1) as another:
            another.submit(at(this, NOW + timedelta(seconds=151)).validate, asked, seconds=60).result()
        return told(Verdict.FAILED)(proxy, now)

    tell(monkeypatch, slow)
    outcome = this.validate(asked, seconds=60)

    (row,) = this.proxies.get_many([record.id]).values()
    assert outcome.counts["superseded"] == 1
    assert (row.check.count, row.check.failures_in_row, row.claim) == (6, 0, 0)
    assert len(this.checks.keys(record.id)) == 1
