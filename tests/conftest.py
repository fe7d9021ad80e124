"""What all tests share: one Valkey and one emulated AWS per worker process, started when the first test asks for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support import servers


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
