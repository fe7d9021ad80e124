"""The clock of the tests, and the option that sets its start."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime, timedelta

import pytest
from proxypool import clock as product
from proxypool_client.clock import system

from tests.conftest import instant
from tests.support.clock import Clock

NOON = datetime(2028, 5, 17, 12, tzinfo=UTC)


def test_the_clock_starts_at_the_option(request: pytest.FixtureRequest) -> None:
    start = datetime.fromisoformat(request.config.getoption("--at"))

    assert start <= product.now() < start + timedelta(minutes=5)


def test_a_clock_that_is_set_is_stopped_until_it_is_moved(clock: Clock) -> None:
    clock.set(NOON)
    before = [product.now() for _ in range(2)]

    clock.move(seconds=0.001)

    assert before == [NOON, NOON]
    assert product.now() == NOON + timedelta(milliseconds=1)


def test_a_clock_that_runs_is_moved_and_runs_on() -> None:
    moved = Clock()
    moved.start(NOON)

    moved.move(seconds=3_600)

    assert NOON + timedelta(hours=1) <= moved.now() <= moved.now()
    assert moved.offset == pytest.approx(NOON + timedelta(hours=1) - system(), abs=timedelta(minutes=5))


def test_a_clock_that_runs_again_does_not_go_back() -> None:
    moved = Clock()
    moved.start(NOON)
    moved.set(NOON + timedelta(hours=1))

    moved.resume()

    assert moved.now() >= NOON + timedelta(hours=1)


@pytest.mark.parametrize("text", ["noon", "2028-02-30T00:00:00Z", "2028-02-29T23:59:30"])
def test_an_option_that_is_not_an_instant_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        instant(text)
