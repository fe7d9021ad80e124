"""A lease as the API shows it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from proxypool.http.fields import to_json
from proxypool.leases.pool import Lease
from proxypool.proxies.proxy import Protocol

GRANTED = datetime(2026, 11, 30, 4, 19, 24, 57_000, tzinfo=UTC)


@pytest.mark.parametrize(("milliseconds", "seconds"), [(60_000, 60), (60_999, 60), (61_500, 61), (3_600_000, 3600)])
def test_a_lease_never_claims_a_second_that_it_does_not_have(milliseconds: int, seconds: int) -> None:
    """I1: a holder measures `ttl_seconds` by its clock; if rounded up, it would overlap with the next holder."""
    ends = GRANTED + timedelta(milliseconds=milliseconds)

    lease = Lease(
        id="a.1",
        proxy_id="b",
        fence="1-0",
        granted_at=GRANTED,
        expires_at=ends,
        proxy_url="http://127.0.0.1:1",
        protocol=Protocol.HTTP,
        score=1.0,
    )

    assert to_json(lease)["ttl_seconds"] == seconds
