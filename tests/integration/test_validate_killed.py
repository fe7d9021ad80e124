"""An invocation that is killed at any call to AWS or step on the wire, before or after its effect: nobody is lost or counted twice."""

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
from proxypool.network.wire import Wire
from proxypool.proxies.proxy import Kind, Protocol, Proxy, Status
from proxypool.proxies.record import ProxyRecord, due_shards

from tests.support.builders import NOW
from tests.support.checks import a_validator, at, messages, rows, tell, told
from tests.support.stack import until

CALLS = 40  # more than a batch makes
STEPS = 80  # more than two checks and the questions to the judge take on the wire


class Killed(SystemExit):
    """The process is gone: nothing of it runs any further. Of a kind that no task of an event loop keeps to itself."""


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


@contextmanager
def killed_on_the_wire(step: int, *, after: bool) -> Iterator[list[str]]:
    """The process takes `step` steps on its connections, to judges and proxies alike, and then does nothing any more."""
    made: list[str] = []
    open_, send, read, call = Wire.open, Wire.send, Wire.read, BaseClient._make_api_call

    def begin(name: str) -> bool:
        """Whether this step, the last one, takes effect before the end; raises where it comes too late, or not at all."""
        made.append(name)
        if len(made) > step or (len(made) == step and not after):
            raise Killed
        return len(made) == step

    async def opened(ip: str, port: int) -> Wire:
        is_last = begin("connect")
        wire = await open_(ip, port)
        if is_last:
            wire.close()  # as the system does for a process that is gone
            raise Killed
        return wire

    def sent(self: Wire, data: bytes) -> None:
        is_last = begin("send")
        send(self, data)
        if is_last:
            raise Killed

    async def was_read(self: Wire, reader: Any) -> Any:
        is_last = begin("read")
        found = await read(self, reader)
        if is_last:
            raise Killed
        return found

    def called(self: Any, operation: str, parameters: Any) -> Any:
        if len(made) >= step:
            raise Killed
        return call(self, operation, parameters)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Wire, "open", opened)
        patch.setattr(Wire, "send", sent)
        patch.setattr(Wire, "read", was_read)
        patch.setattr(BaseClient, "_make_api_call", called)
        yield made


@pytest.fixture(scope="module")
def farm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """The manifest of two proxies, one good and one with a page of its own, and of their judge; its key is `secret`."""
    folder: Path = tmp_path_factory.mktemp("farm")
    (folder / "key").write_text("secret")
    command = [
        sys.executable,
        "-m",
        "proxypool.local.farm",
        "--state-dir",
        str(folder),
        "--key-file",
        str(folder / "key"),
    ]
    with subprocess.Popen([*command, "-n", "2", "--mix", "fast=1,captive=1"]) as process:
        try:
            until(lambda: (folder / "farm.json").exists())
            yield json.loads((folder / "farm.json").read_text())
        finally:
            process.terminate()


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_batch_killed_at_any_step_on_the_wire_leaves_each_proxy_validated_once_or_due(
    aws_endpoint: str, farm: dict[str, Any], after: bool
) -> None:
    """I8, I9, I13, input 83: for every k, killed at the k-th connect, send or read of all stages, then delivered again.

    Each k has the two proxies under a user name of its own, so that one delivery at the end does for all.
    """
    this, all_rows, ended, k = _asking(farm), list[ProxyRecord](), False, 0
    while not ended:
        k += 1
        assert k < STEPS, "two checks take fewer steps"
        listed = [Proxy(Protocol.HTTP, one["host"], one["port"], f"k{k}") for one in farm["proxies"]]
        new = this.proxies.upsert_many(listed, source_id="s", kind=Kind.UNKNOWN, tags=frozenset(), now=NOW).new

        with killed_on_the_wire(k, after=after) as made:
            with suppress(Killed):
                this.validate(messages(new), seconds=60)
            ended = len(made) < k
        _once_or_due(this, list(new))
        all_rows += new
    at(this, NOW + timedelta(seconds=900)).validate(messages(all_rows), seconds=60)

    done = _once_or_due(this, all_rows)
    assert all(row.claim == 0 for row in done)
    statuses = [one["truth"]["status"] for one in farm["proxies"]]
    assert [(row.status, row.check.count) for row in done] == [(status, 1) for status in statuses] * k
    assert k > 20  # the judge by both schemes and its canary, then the stages


def _asking(farm: dict[str, Any]) -> Validator:
    """A validator whose judge is the farm's."""
    return a_validator(
        judge_url=farm["judge_url"], judge_https_url=farm["judge_https_url"], judge_ca_file=farm["ca_file"],
    )  # fmt: skip


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
