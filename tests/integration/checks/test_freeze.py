"""A pool that seems to fail as a whole: its failures are recorded without effect until a later sweep looks healthy."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from proxypool.aws.state import FROZEN, GAUGES
from proxypool.checks.check import Blame, Reason, Verdict
from proxypool.checks.freeze import Freezer
from proxypool.proxies.proxy import Proxy, Status

from tests.support.builders import NOW
from tests.support.checks import (
    CheckStub,
    a_validator,
    add_records,
    at_time,
    captured_events,
    messages,
    returning,
    stub_checks,
)
from tests.support.servers import ROOT

SOON = NOW + timedelta(seconds=600)


def fails_for(share: float, count: int) -> CheckStub:
    """The first `share` of the added proxies fail."""

    def stub(proxy: Proxy, now: Any) -> Any:
        verdict = Verdict.FAILED if proxy.port < 20_000 + share * count else Verdict.PASSED
        return returning(verdict)(proxy, now)

    return stub


@pytest.mark.parametrize(
    ("count", "share", "frozen"),
    [
        (40, 1.0, True),
        (30, 0.6, True),  # exactly at both thresholds
        (30, 0.5, False),
        (29, 1.0, False),  # too few for a freeze
    ],
)
def test_proxies_stay_active_if_most_of_the_pool_fails(
    aws_endpoint: str, monkeypatch: pytest.MonkeyPatch, count: int, share: float, frozen: bool
) -> None:
    """I7 in reverse: a proxy that did not fail through its own fault stays in the ready sets."""
    validator = a_validator()
    records = add_records(validator, count)
    stub_checks(monkeypatch, fails_for(share, count))

    outcome = validator.validate(messages(records, sweep_id="a"), seconds=60)

    after = validator.proxies.get_many(record.id for record in records).values()
    failed = [row for row in after if row.check.failures_in_row]
    assert len(failed) == (0 if frozen else share * count)
    assert (validator.state.get(FROZEN) is not None) is frozen
    assert outcome.counts["frozen"] == (share * count if frozen else 0)
    assert all(row.check.count == 6 and row.claim == 0 for row in after)
    assert all(len(validator.checks.keys(row.id)) == 1 for row in after)


def test_a_freeze_is_published_once_applies_to_small_batches_and_ends_with_a_healthy_sweep(
    aws_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    validator = a_validator()
    first, second, third = (
        add_records(validator, 40),
        add_records(validator, 5, first=100),
        add_records(validator, 40, first=200),
    )
    with captured_events(validator.settings.event_bus) as events_until_now:
        stub_checks(monkeypatch, returning(Verdict.FAILED))
        validator.validate(messages(first, sweep_id="a"), seconds=60)
        validator.validate(messages(second, sweep_id="a"), seconds=60)
        frozen_after_two = validator.state.get(FROZEN)
        stub_checks(monkeypatch, returning(Verdict.PASSED))
        validator.validate(messages(third, sweep_id="b"), seconds=60)

        (event,) = [detail for name, detail in events_until_now() if name == "scores.frozen"]

    jsonschema.validate(event, _schema("scores.frozen"))
    assert (event["checked"], event["failed"]) == (40, 40)
    assert frozen_after_two is not None
    assert validator.state.get(FROZEN) is None
    assert all(
        row.check.failures_in_row == 0 for row in validator.proxies.get_many(record.id for record in second).values()
    )


def test_many_small_batches_of_one_sweep_are_counted_together(
    aws_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    validator = a_validator()
    records = add_records(validator, 40)
    stub_checks(monkeypatch, returning(Verdict.FAILED))

    for start in range(0, 40, 10):
        validator.validate(messages(records[start : start + 10], sweep_id="a"), seconds=60)

    after = validator.proxies.get_many(record.id for record in records)
    assert [after[record.id].check.failures_in_row for record in records] == [1] * 20 + [0] * 20


def test_quick_rechecks_of_failures_do_not_freeze_the_pool(aws_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    validator = a_validator()
    records = add_records(validator, 40, failures_in_row=2)
    stub_checks(monkeypatch, returning(Verdict.FAILED))

    validator.validate(messages(records), seconds=60)

    assert {row.status for row in validator.proxies.get_many(record.id for record in records).values()} == {Status.DEAD}


def test_a_freeze_does_not_apply_to_unchecked_proxies(aws_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    validator = a_validator()
    active, new = add_records(validator, 40), add_records(validator, 3, status=Status.UNCHECKED, first=100)
    stub_checks(monkeypatch, returning(Verdict.FAILED))

    validator.validate(messages([*active, *new], sweep_id="a"), seconds=60)

    assert {row.status for row in validator.proxies.get_many(record.id for record in new).values()} == {Status.DEAD}


def test_an_operator_ends_the_freeze(aws_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    validator = a_validator()
    records = add_records(validator, 40)
    stub_checks(monkeypatch, returning(Verdict.FAILED))
    validator.validate(messages(records, sweep_id="a"), seconds=60)

    assert Freezer(validator.state, validator.settings).thaw()
    again = list(validator.proxies.get_many(record.id for record in records[:10]).values())
    at_time(validator, SOON).validate(messages(again, sweep_id="b"), seconds=60)

    assert {
        row.check.failures_in_row for row in validator.proxies.get_many(record.id for record in again).values()
    } == {1}


def test_while_all_judges_are_down_nothing_changes_and_one_event_is_published(aws_endpoint: str) -> None:
    """Case 32."""
    validator = a_validator()
    records = add_records(validator, 3)
    with captured_events(validator.settings.event_bus) as events_until_now:
        for _ in range(2):
            outcome = validator.validate(messages(records), seconds=60)
            assert outcome.counts["inconclusive"] == 3
        (event,) = [detail for name, detail in events_until_now() if name == "judge.down"]

    jsonschema.validate(event, _schema("judge.down"))
    for row in validator.proxies.get_many(record.id for record in records).values():
        assert (row.status, row.check.count, row.check.failures_in_row, row.claim) == (Status.ACTIVE, 5, 0, 0)


def test_a_judge_that_goes_down_during_a_batch_is_published_and_not_blamed_on_proxies(
    aws_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case 32."""
    validator = a_validator()
    records = add_records(validator, 40)
    stub_checks(monkeypatch, returning(Verdict.INCONCLUSIVE, reason=Reason.JUDGE_DOWN, blame=Blame.JUDGE))
    with captured_events(validator.settings.event_bus) as events_until_now:
        validator.validate(messages(records, sweep_id="a"), seconds=60)
        names = [name for name, _ in events_until_now()]

    assert names == ["judge.down"]
    for row in validator.proxies.get_many(record.id for record in records).values():
        assert (row.check.passed, row.check.failed, row.check.failures_in_row) == (5, 0, 0)


def test_a_low_pool_is_published_once_per_crossing_and_filter(
    aws_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    validator = a_validator(pool_low_mark=20)
    stub_checks(monkeypatch, returning(Verdict.FAILED))
    with captured_events(validator.settings.event_bus) as events_until_now:
        for number, (ready, in_us) in enumerate([(50, 30), (50, 3), (50, 2), (50, 30), (7, 3)]):
            validator.state.put(GAUGES, {"ready": ready, "ready_by": {"country=us": in_us}})
            validator.validate(messages(add_records(validator, 1, first=number, failures_in_row=2)), seconds=60)
        events = [detail for name, detail in events_until_now() if name == "proxy.pool_low"]

    for event in events:
        jsonschema.validate(event, _schema("proxy.pool_low"))
    crossings = sorted((event["filter"], event["ready"]) for event in events)
    assert crossings == [("all", 7), ("country=us", 3), ("country=us", 3)]


def _schema(event: str) -> Any:
    return json.loads((ROOT / f"events/bus/{event}.schema.json").read_text())
