"""An invocation killed at any AWS call or network step, before or after its effect: no proxy is lost or counted twice."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.client import BaseClient
from proxypool.checks.check import Check, Verdict
from proxypool.checks.validate import Validator
from proxypool.network.wire import Connection
from proxypool.proxies.proxy import Kind, Protocol, Proxy, Status
from proxypool.proxies.record import ProxyRecord, due_shards

from tests.support.builders import NOW
from tests.support.checks import a_validator, add_records, at_time, messages, returning, stub_checks
from tests.support.stack import wait_until

CALLS = 40  # more than a batch makes
STEPS = 80  # more network steps than two checks and the probes of the judge take


class Killed(SystemExit):
    """Ends the process; derived from SystemExit, which asyncio tasks do not swallow."""


@contextmanager
def killed_at(call: int, *, after: bool) -> Iterator[list[str]]:
    """The process is killed at its `call`-th AWS call, before or after its effect; yields the calls so far."""
    calls: list[str] = []
    real = BaseClient._make_api_call

    def counted(self: Any, operation: str, parameters: Any) -> Any:
        calls.append(operation)
        if len(calls) < call:
            return real(self, operation, parameters)
        if len(calls) == call and after:
            real(self, operation, parameters)
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BaseClient, "_make_api_call", counted)
        yield calls


def is_in_due_index(validator: Validator, row: ProxyRecord) -> bool:
    """True if a sweep finds it sooner or later, through the index."""
    far = NOW + timedelta(days=8)
    return any(row.id in dict(validator.proxies.due(shard, before=far, limit=100)) for shard in due_shards(row.status))


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_batch_killed_at_any_call_leaves_each_proxy_validated_once_or_due(
    aws_endpoint: str, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    """I8, I9, I13, input 83: for each k, killed at the k-th call, then delivered again."""

    def stub(proxy: Proxy, now: Any) -> Check:
        return returning(Verdict.PASSED if proxy.port % 2 else Verdict.FAILED)(proxy, now)

    stub_checks(monkeypatch, stub)
    validator, later = a_validator(), NOW + timedelta(seconds=900)  # the queue's visibility is longer than a claim
    completed, k = False, 0
    while not completed:
        k += 1
        assert k < CALLS, "a batch makes fewer calls"
        active, new = add_records(validator, 2), add_records(validator, 2, status=Status.UNCHECKED, first=10)
        queue_messages = messages([*active, *new], sweep_id="a")

        with killed_at(k, after=after) as calls:
            with suppress(Killed):
                validator.validate(queue_messages, seconds=60)
            completed = len(calls) < k
        assert_validated_once_or_due(validator, active + new)
        at_time(validator, later).validate(queue_messages, seconds=60)

        records = assert_validated_once_or_due(validator, active + new)
        assert all(row.claim == 0 for row in records)
        assert [row.check.count for row in records] == [6, 6, 1, 1], (k, calls)
        delete_all(validator)
    assert k > 8  # claim, read, rules, mark, result, check, event, …


def assert_validated_once_or_due(validator: Validator, records: list[ProxyRecord]) -> list[ProxyRecord]:
    """The current records; each was validated at most once and is due again."""
    records_now = validator.proxies.get_many(record.id for record in records)
    current = [records_now[record.id] for record in records]
    for before, record in zip(records, current, strict=True):
        count_new = record.check.count - before.check.count
        assert count_new in (0, 1)
        # The item of a check may be lost with the process, but none may be added.
        assert len(validator.checks.keys(record.id)) <= count_new
        assert is_in_due_index(validator, record)
        if not count_new:
            assert record.next_check_at == before.next_check_at
    return current


def delete_all(validator: Validator) -> None:
    for row in validator.proxies.scan():
        validator.checks.delete(row.id, validator.checks.keys(row.id))
        boto3.client("dynamodb").delete_item(TableName=validator.proxies.table_name, Key={"proxy_id": {"S": row.id}})


@contextmanager
def killed_at_network_step(step: int, *, after: bool) -> Iterator[list[str]]:
    """The process is killed at its `step`-th network step, on connections to judges and proxies; yields the steps so
    far.
    """
    steps: list[str] = []
    open_, send, read, call = Connection.open, Connection.send, Connection.read, BaseClient._make_api_call

    def begin(name: str) -> bool:
        """True if this is the last step, with effect; raises Killed if it must not happen."""
        steps.append(name)
        if len(steps) > step or (len(steps) == step and not after):
            raise Killed
        return len(steps) == step

    async def killing_open(ip: str, port: int) -> Connection:
        is_last = begin("connect")
        wire = await open_(ip, port)
        if is_last:
            wire.close()  # as the operating system does for a killed process
            raise Killed
        return wire

    def killing_send(self: Connection, data: bytes) -> None:
        is_last = begin("send")
        send(self, data)
        if is_last:
            raise Killed

    async def killing_read(self: Connection, reader: Any) -> Any:
        is_last = begin("read")
        result = await read(self, reader)
        if is_last:
            raise Killed
        return result

    def killing_call(self: Any, operation: str, parameters: Any) -> Any:
        if len(steps) >= step:
            raise Killed
        return call(self, operation, parameters)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Connection, "open", killing_open)
        patch.setattr(Connection, "send", killing_send)
        patch.setattr(Connection, "read", killing_read)
        patch.setattr(BaseClient, "_make_api_call", killing_call)
        yield steps


@pytest.fixture(scope="module")
def farm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Manifest of two proxies (one good, one that serves its own page) and their judge, whose key is `secret`."""
    folder: Path = tmp_path_factory.mktemp("farm")
    (folder / "key").write_text("secret")
    command = [
        sys.executable,
        "-m",
        "proxypool.local.farm.server",
        "--state-dir",
        str(folder),
        "--key-file",
        str(folder / "key"),
    ]
    with subprocess.Popen([*command, "-n", "2", "--mix", "fast=1,captive=1"]) as process:
        try:
            wait_until(lambda: (folder / "farm.json").exists())
            yield json.loads((folder / "farm.json").read_text())
        finally:
            process.terminate()


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_batch_killed_at_any_network_step_leaves_each_proxy_validated_once_or_due(
    aws_endpoint: str, farm: dict[str, Any], after: bool
) -> None:
    """I8, I9, I13, input 83: for each k, killed at the k-th connect, send or read of all stages, then delivered again.

    Each k uses its own user name for the two proxies, so that a single delivery at the end covers all.
    """
    validator, all_rows, completed, k = validator_with_judge_of(farm), list[ProxyRecord](), False, 0
    while not completed:
        k += 1
        assert k < STEPS, "two checks take fewer steps"
        listed = [Proxy(Protocol.HTTP, entry["host"], entry["port"], f"k{k}") for entry in farm["proxies"]]
        new = validator.proxies.upsert_many(listed, source_id="s", kind=Kind.UNKNOWN, tags=frozenset(), now=NOW).new

        with killed_at_network_step(k, after=after) as steps:
            with suppress(Killed):
                validator.validate(messages(new), seconds=60)
            completed = len(steps) < k
        assert_validated_once_or_due(validator, list(new))
        all_rows += new
    at_time(validator, NOW + timedelta(seconds=900)).validate(messages(all_rows), seconds=60)

    records = assert_validated_once_or_due(validator, all_rows)
    assert all(row.claim == 0 for row in records)
    statuses = [entry["truth"]["status"] for entry in farm["proxies"]]
    assert [(row.status, row.check.count) for row in records] == [(status, 1) for status in statuses] * k
    assert k > 20  # the judge over HTTP and HTTPS, its canary page, then the stages


def validator_with_judge_of(farm: dict[str, Any]) -> Validator:
    """A validator with the farm's judge."""
    return a_validator(
        judge_url=farm["judge_url"], judge_https_url=farm["judge_https_url"], judge_ca_file=farm["ca_file"],
    )  # fmt: skip


def test_a_slow_run_with_an_expired_claim_changes_nothing(aws_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """I9, inputs 71, 72: another run has claimed and checked the proxy meanwhile, so the late result is rejected."""
    validator = a_validator()
    (record,) = add_records(validator, 1)
    queue_messages = messages([record])

    def slow(proxy: Proxy, now: datetime) -> Check:
        if now > NOW:
            return returning(Verdict.PASSED)(proxy, now)
        with ThreadPoolExecutor(1) as another:
            another.submit(
                at_time(validator, NOW + timedelta(seconds=151)).validate, queue_messages, seconds=60
            ).result()
        return returning(Verdict.FAILED)(proxy, now)

    stub_checks(monkeypatch, slow)
    outcome = validator.validate(queue_messages, seconds=60)

    (row,) = validator.proxies.get_many([record.id]).values()
    assert outcome.counts["superseded"] == 1
    assert (row.check.count, row.check.failures_in_row, row.claim) == (6, 0, 0)
    assert len(validator.checks.keys(record.id)) == 1
