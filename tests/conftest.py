"""What all tests share: one Valkey and one emulated AWS per worker process, started when the first test asks for it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.support import servers

if TYPE_CHECKING:
    from tests.support.deployment import Deployment


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keeps the tests of an xdist_group together: xdist 3.8 writes the group to `_nodeid`, which pytest 9.2 does not read."""
    for item in items:
        grouped = vars(item).get("_nodeid")
        if grouped is not None and item.nodeid != grouped:
            item._id = replace(item._id)
            object.__setattr__(item._id, "_str_cache", grouped)


@pytest.fixture(autouse=True)
def no_metrics_of_others() -> None:
    """A process counts until a function tells: no test tells what another one counted."""
    if telemetry := sys.modules.get("proxypool.telemetry"):
        telemetry.metrics.clear_metrics()


@pytest.fixture(scope="session")
def valkey_url() -> Iterator[str]:
    """A real Valkey in cluster mode; empty it yourself (flushall) where it matters."""
    with servers.valkey_cluster() as url:
        yield url


@pytest.fixture(scope="session")
def aws_endpoint() -> Iterator[str]:
    """The emulated AWS; this process's AWS_* variables lead to it."""
    with servers.emulator() as url:
        yield url


@pytest.fixture(scope="module")
def deployment(aws_endpoint: str, valkey_url: str) -> Iterator[Deployment]:
    """The functions' modules in this process, on the emulated AWS and a real Valkey: one for all tests of a file."""
    from tests.support.deployment import deployed  # only where it is asked for: it imports all stages

    with deployed(valkey_url) as found:
        yield found
