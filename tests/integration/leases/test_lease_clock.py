"""The scripts of the lease engine, on a real Valkey, take the time from the clock that tests move."""

from __future__ import annotations

from datetime import timedelta

import pytest
from proxypool.errors import NotFound
from proxypool.leases.ledger import journal
from proxypool.leases.pool import Request

from tests.support.clock import Clock
from tests.support.leases import a_pool, a_record


def test_a_lease_and_its_journal_have_the_clocks_time(valkey_url: str, clock: Clock) -> None:
    at = clock.stop()
    pool = a_pool(valkey_url, a_record(1))

    lease = pool.acquire("ann", Request(ttl_seconds=60))[0][0]

    entries, _ = journal.parse_entries(pool.cache.command("XRANGE", pool.cache.keys.journal, "-", "+"))
    assert (lease.granted_at, lease.expires_at) == (at, at + timedelta(seconds=60))
    assert [entry.at_ms for entry in entries] == [round(at.timestamp() * 1000)]


def test_a_clock_that_runs_moves_the_scripts_too(valkey_url: str, clock: Clock) -> None:
    pool = a_pool(valkey_url, a_record(1))
    lease = pool.acquire("ann", Request(ttl_seconds=60))[0][0]
    assert abs(lease.granted_at - clock.now()) < timedelta(minutes=1)

    clock.move(seconds=60)

    with pytest.raises(NotFound):
        pool.renew("ann", lease.id, 60)
