"""A whole pool that seems to fail at once: its failures are recorded and have no effect, until a later sweep looks better."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from proxypool.checks.check import Blame, Reason, Verdict
from proxypool.checks.freeze import Freezer
from proxypool.proxies.proxy import Proxy, Status
from proxypool.state import FROZEN, GAUGES

from tests.support.builders import NOW
from tests.support.checks import Told, a_validator, at, listening, messages, rows, tell, told
from tests.support.servers import ROOT

SOON = NOW + timedelta(seconds=600)


def fails_for(share: float, count: int) -> Told:
    """The first `share` of the proxies of `rows` fail."""

    def say(proxy: Proxy, now: Any) -> Any:
        verdict = Verdict.FAILED if proxy.port < 20_000 + share * count else Verdict.PASSED
        return told(verdict)(proxy, now)

    return say


@pytest.mark.parametrize(
    ("count", "share", "frozen"),
    [
        (40, 1.0, True),
        (30, 0.6, True),  # exactly at both bounds
        (30, 0.5, False),
        (29, 1.0, False),  # too few to tell
    ],
)
def test_a_pool_that_falls_as_a_whole_keeps_its_proxies(
    aws_endpoint: str, monkeypatch: pytest.MonkeyPatch, count: int, share: float, frozen: bool
) -> None:
    """I7 in reverse: what did not fail by itself is not taken out."""
    this = a_validator()
    records = rows(this, count)
    tell(monkeypatch, fails_for(share, count))

    outcome = this.validate(messages(records, sweep_id="a"), seconds=60)

    after = this.proxies.get_many(one.id for one in records).values()
    failed = [row for row in after if row.check.failures_in_row]
    assert len(failed) == (0 if frozen else share * count)
    assert (this.state.get(FROZEN) is not None) is frozen
    assert outcome.counts["frozen"] == (share * count if frozen else 0)
    assert all(row.check.count == 6 and row.claim == 0 for row in after)
    assert all(len(this.checks.keys(row.id)) == 1 for row in after)


def test_a_freeze_is_told_once_holds_for_small_batches_and_ends_with_a_better_sweep(
    aws_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    this = a_validator()
    first, second, third = rows(this, 40), rows(this, 5, first=100), rows(this, 40, first=200)
    with listening(this.settings.event_bus) as heard:
        tell(monkeypatch, told(Verdict.FAILED))
        this.validate(messages(first, sweep_id="a"), seconds=60)
        this.validate(messages(second, sweep_id="a"), seconds=60)
        still = this.state.get(FROZEN)
        tell(monkeypatch, told(Verdict.PASSED))
        this.validate(messages(third, sweep_id="b"), seconds=60)

        (event,) = [detail for name, detail in heard() if name == "scores.frozen"]

    jsonschema.validate(event, _schema("scores.frozen"))
    assert (event["asked"], event["failed"]) == (40, 40)
    assert still is not None
    assert this.state.get(FROZEN) is None
    assert all(row.check.failures_in_row == 0 for row in this.proxies.get_many(one.id for one in second).values())


def test_many_small_batches_of_one_sweep_are_counted_together(
    aws_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    this = a_validator()
    records = rows(this, 40)
    tell(monkeypatch, told(Verdict.FAILED))

    for start in range(0, 40, 10):
        this.validate(messages(records[start : start + 10], sweep_id="a"), seconds=60)

    after = this.proxies.get_many(one.id for one in records)
    assert [after[one.id].check.failures_in_row for one in records] == [1] * 20 + [0] * 20


def test_quick_rechecks_of_failures_do_not_freeze_the_pool(aws_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    this = a_validator()
    records = rows(this, 40, failures_in_row=2)
    tell(monkeypatch, told(Verdict.FAILED))

    this.validate(messages(records), seconds=60)

    assert {row.status for row in this.proxies.get_many(one.id for one in records).values()} == {Status.DEAD}


def test_unchecked_and_dead_proxies_are_not_held_by_a_freeze(
    aws_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    this = a_validator()
    active, new = rows(this, 40), rows(this, 3, status=Status.UNCHECKED, first=100)
    tell(monkeypatch, told(Verdict.FAILED))

    this.validate(messages([*active, *new], sweep_id="a"), seconds=60)

    assert {row.status for row in this.proxies.get_many(one.id for one in new).values()} == {Status.DEAD}


def test_an_operator_thaws_by_hand(aws_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    this = a_validator()
    records = rows(this, 40)
    tell(monkeypatch, told(Verdict.FAILED))
    this.validate(messages(records, sweep_id="a"), seconds=60)

    assert Freezer(this.state, this.settings).thaw()
    again = list(this.proxies.get_many(one.id for one in records[:10]).values())
    at(this, SOON).validate(messages(again, sweep_id="b"), seconds=60)

    assert {row.check.failures_in_row for row in this.proxies.get_many(one.id for one in again).values()} == {1}


def test_while_no_judge_answers_nothing_changes_and_one_event_tells_of_it(aws_endpoint: str) -> None:
    """Case 32."""
    this = a_validator()
    records = rows(this, 3)
    with listening(this.settings.event_bus) as heard:
        for _ in range(2):
            outcome = this.validate(messages(records), seconds=60)
            assert outcome.counts["inconclusive"] == 3
        (event,) = [detail for name, detail in heard() if name == "judge.down"]

    jsonschema.validate(event, _schema("judge.down"))
    for row in this.proxies.get_many(one.id for one in records).values():
        assert (row.status, row.check.count, row.check.failures_in_row, row.claim) == (Status.ACTIVE, 5, 0, 0)


def test_a_judge_that_goes_down_meanwhile_is_told_of_and_blames_nobody(
    aws_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case 32."""
    this = a_validator()
    records = rows(this, 40)
    tell(monkeypatch, told(Verdict.INCONCLUSIVE, reason=Reason.JUDGE_DOWN, blame=Blame.JUDGE))
    with listening(this.settings.event_bus) as heard:
        this.validate(messages(records, sweep_id="a"), seconds=60)
        names = [name for name, _ in heard()]

    assert names == ["judge.down"]
    for row in this.proxies.get_many(one.id for one in records).values():
        assert (row.check.passed, row.check.failed, row.check.failures_in_row) == (5, 0, 0)


def test_a_low_pool_is_told_once_per_crossing_and_filter(aws_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    this = a_validator(pool_low_mark=20)
    tell(monkeypatch, told(Verdict.FAILED))
    with listening(this.settings.event_bus) as heard:
        for number, (ready, in_us) in enumerate([(50, 30), (50, 3), (50, 2), (50, 30), (7, 3)]):
            this.state.put(GAUGES, {"ready": ready, "ready_by": {"country=us": in_us}})
            this.validate(messages(rows(this, 1, first=number, failures_in_row=2)), seconds=60)
        events = [detail for name, detail in heard() if name == "proxy.pool_low"]

    for event in events:
        jsonschema.validate(event, _schema("proxy.pool_low"))
    told_of = sorted((event["filter"], event["ready"]) for event in events)
    assert told_of == [("all", 7), ("country=us", 3), ("country=us", 3)]


def _schema(event: str) -> Any:
    return json.loads((ROOT / f"events/bus/{event}.schema.json").read_text())
