"""When the sizes of the pool are counted again: a fixed cost, whatever the size."""

from __future__ import annotations

from datetime import timedelta

import pytest
from proxypool import clock
from proxypool.proxies.census import is_old

from tests.support.builders import NOW


@pytest.mark.parametrize(
    ("proxies", "age_seconds", "old"),
    [
        (0, 4, False),
        (0, 5, True),  # each run
        (10_000, 50, True),
        (100_000, 499, False),
        (100_000, 500, True),
        (10_000_000, 899, False),
        (10_000_000, 900, True),  # never rarer than a quarter of an hour
    ],
)
def test_a_larger_pool_is_counted_more_rarely(proxies: int, age_seconds: int, old: bool) -> None:
    sizes = {"at": clock.iso(NOW), "by_status": {"active": proxies, "dead": 0}}

    assert is_old(sizes, NOW + timedelta(seconds=age_seconds)) is old
