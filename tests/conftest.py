"""Fixtures of all tests: one Valkey and one emulated AWS per worker process, started on first use, and the pool's clock."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

import pytest
from proxypool_client import clock as clock_module

from tests.support import servers

if TYPE_CHECKING:
    from tests.support.clock import Clock
    from tests.support.deployment import Deployment

NOON = "2028-05-17T12:00:00Z"  # in the future: the emulator deletes items that have expired by the machine's clock
AT_HELP = f"""Where the pool's clock starts in each file of tests/unit and tests/integration: a future instant in ISO 8601 with its
offset (default: {NOON}). The clock runs from there; the fixture `clock` can stop and move it. Servers (Valkey, the emulated AWS)
and the stacks of tests/e2e and tests/start use the machine's time."""
CLOCKED = ("unit", "integration")


def instant(text: str) -> str:
    """Validates an instant with an offset, for argparse; returns the text, since xdist cannot send a datetime to its workers."""
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    if parsed.tzinfo is None:
        raise argparse.ArgumentTypeError(f"{text} has no offset from UTC: add Z")
    return text


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds `--at`."""
    parser.addoption("--at", type=instant, default=NOON, metavar="INSTANT", help=AT_HELP)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Groups the tests of an xdist_group: xdist 3.8 writes the group to `_nodeid`, which pytest 9.2 does not read."""
    for item in items:
        grouped = vars(item).get("_nodeid")
        if grouped is not None and item.nodeid != grouped:
            item._id = replace(item._id)
            object.__setattr__(item._id, "_str_cache", grouped)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Fails if a test file reads the clock when it is imported: its tests run later, at another instant."""

    def refuse() -> datetime:
        raise AssertionError("a test file reads the clock when it is imported: read it in a test or a fixture")

    with mock.patch.object(clock_module, "source", refuse):
        return (yield)


@pytest.fixture(scope="module", autouse=True)
def file_clock(request: pytest.FixtureRequest) -> Iterator[Clock | None]:
    """The pool's clock, started at `--at` before a file's other fixtures; None for tests that use the machine's time."""
    if request.path.relative_to(Path(__file__).parent).parts[0] not in CLOCKED:
        yield None
        return
    from tests.support.clock import Clock

    one = Clock()
    one.start(datetime.fromisoformat(request.config.getoption("--at")))
    with one.installed():
        yield one


@pytest.fixture
def clock(file_clock: Clock | None) -> Iterator[Clock]:
    """The pool's clock, for tests that move it; it runs again after the test."""
    assert file_clock is not None
    yield file_clock
    file_clock.resume()


@pytest.fixture(autouse=True)
def reset_metrics() -> None:
    """Discards the unflushed metrics of earlier tests in this process."""
    if telemetry := sys.modules.get("proxypool.telemetry"):
        telemetry.metrics.clear_metrics()


@pytest.fixture(scope="session")
def valkey_url() -> Iterator[str]:
    """A real Valkey in cluster mode; a test that needs it empty calls flushall."""
    with servers.valkey_cluster() as url:
        yield url


@pytest.fixture(scope="session")
def aws_endpoint() -> Iterator[str]:
    """The emulated AWS; the AWS_* variables of this process are set to it."""
    with servers.emulator() as url:
        yield url


@pytest.fixture(scope="module")
def deployment(aws_endpoint: str, valkey_url: str) -> Iterator[Deployment]:
    """The functions' modules in this process, on the emulated AWS and a real Valkey: one for all tests of a file."""
    from tests.support.deployment import deployed  # imports all stages, so only on use

    with deployed(valkey_url) as running:
        yield running
