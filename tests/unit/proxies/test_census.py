"""Interval between counts of the pool: it grows with the size, so that the cost is fixed."""

from __future__ import annotations

from datetime import timedelta

import pytest
from proxypool import clock
from proxypool.proxies.census import is_stale

from tests.support.builders import NOW


@pytest.mark.parametrize(
    ("proxies", "age_seconds", "stale"),
    [
        (0, 4, False),
        (0, 5, True),  # each run
        (10_000, 50, True),
        (100_000, 499, False),
        (100_000, 500, True),
        (10_000_000, 899, False),
        (10_000_000, 900, True),  # at least every 15 minutes
    ],
)
def test_a_larger_pool_is_counted_less_often(proxies: int, age_seconds: int, stale: bool) -> None:
    sizes = {"at": clock.iso(NOW), "by_status": {"active": proxies, "dead": 0}}

    assert is_stale(sizes, NOW + timedelta(seconds=age_seconds)) is stale
