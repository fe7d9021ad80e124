"""Rows of the benchmark: comparison with the target, and reasons of missed targets."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import pytest

from tests.bench import __main__ as bench
from tests.bench.row import UNEXPLAINED, Row, table


def a_row(value: float | None, target: float | None, *, at_least: bool = False, reason: str = "") -> Row:
    return Row(name="a", value=value, unit="s", target=target, at_least=at_least, reason=reason)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (a_row(15, 15), True),  # at most
        (a_row(15.1, 15), False),
        (a_row(15, 15, at_least=True), True),
        (a_row(14.9, 15, at_least=True), False),
        (a_row(3, None), None),  # no target
        (a_row(None, 15), False),  # not measured
        (a_row(None, 15, at_least=True), False),
    ],
)
def test_a_value_is_compared_with_its_target(row: Row, expected: bool | None) -> None:
    assert row.as_json()["holds"] is expected


def test_a_missed_target_without_a_reason_is_marked_as_unexplained() -> None:
    assert a_row(16, 15).as_json()["reason"] == UNEXPLAINED
    assert a_row(16, 15, reason="one core").as_json()["reason"] == "one core"


def test_the_reason_of_a_target_that_holds_is_omitted() -> None:
    assert "reason" not in a_row(14, 15, reason="one core").as_json()


def test_the_table_shows_minimum_and_maximum_targets() -> None:
    text = table([a_row(16, 15), a_row(2e6, 1.5e6, at_least=True)])

    assert "≤ 15 | NO" in text
    assert "2,000,000" in text
    assert "≥ 1,500,000 | yes" in text


@pytest.mark.parametrize("name", bench.BENCHES)
def test_each_registered_bench_can_be_measured(name: str) -> None:
    assert callable(import_module(f"tests.bench.{name}").measure)


def test_a_failing_bench_is_a_row_without_a_value_and_the_others_still_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> list[Row]:
        raise RuntimeError("no farm")

    monkeypatch.setattr("tests.bench.up.measure", broken)
    monkeypatch.setattr("tests.bench.suite.measure", lambda: [a_row(1, 2)])
    monkeypatch.setattr(bench, "BENCHES", ("up", "suite"))
    monkeypatch.setattr(bench, "RESULT", tmp_path / "build" / "bench.json")
    monkeypatch.setattr(sys, "argv", ["bench"])

    bench.main()

    assert "RuntimeError: no farm" in bench.RESULT.read_text()
    assert "| a | 1 | s | ≤ 2 | yes |" in capsys.readouterr().out
