"""acquire against brute force: small pools, random filters, each rule deciding often."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from proxypool.errors import PoolEmpty
from proxypool.leases.index import is_ready
from proxypool.leases.pool import Pool, Request
from proxypool.proxies.proxy import Anonymity, Status
from proxypool.proxies.record import ProxyRecord

from tests.support.leases import a_pool, a_record

FACTS = st.fixed_dictionaries(
    {
        "country": st.sampled_from(["de", "us", None]),
        "anonymity": st.sampled_from(list(Anonymity)),
        "https": st.booleans(),
        "latency_ms": st.sampled_from([50.0, 500.0]),
        "status": st.sampled_from([Status.ACTIVE, Status.ACTIVE, Status.ACTIVE, Status.DEAD]),
    }
)
REQUESTS = st.builds(
    Request,
    ttl_seconds=st.just(60),
    count=st.integers(1, 6),
    country=st.sampled_from([None, None, "de", "us"]),
    anonymity=st.sampled_from([Anonymity.TRANSPARENT, Anonymity.TRANSPARENT, Anonymity.ANONYMOUS, Anonymity.ELITE]),
    https=st.sampled_from([False, False, True]),
    max_latency_ms=st.sampled_from([0, 0, 100]),
)


def fits(record: ProxyRecord, request: Request) -> bool:
    """What the rules say of one proxy, plainly."""
    check = record.check
    return (
        is_ready(record)
        and request.country in (None, check.country)
        and check.anonymity is not None
        and check.anonymity.rank >= request.anonymity.rank
        and (check.https or not request.https)
        and (not request.max_latency_ms or (check.latency_ms or 0) <= request.max_latency_ms)
    )


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    facts=st.lists(FACTS, max_size=12), requests=st.lists(st.tuples(REQUESTS, st.booleans()), min_size=1, max_size=8)
)
def test_acquire_grants_what_brute_force_would(
    valkey_url: str, facts: list[dict[str, object]], requests: list[tuple[Request, bool]]
) -> None:
    """I1, I7, input 65: as many as fit and are free, never others, and a refusal only where none is."""
    records = {record.id: record for record in (a_record(number, **one) for number, one in enumerate(facts))}
    pool: Pool = a_pool(valkey_url, *records.values())
    held: set[str] = set()
    for request, gives_back in requests:
        free = {record.id for record in records.values() if fits(record, request)} - held
        try:
            leases, _ = pool.acquire("ann", replace(request))
        except PoolEmpty:
            assert not free
            continue
        got = {lease.proxy_id for lease in leases}
        assert got <= free
        assert len(got) == len(leases) == min(request.count, len(free))
        if gives_back:
            for lease in leases:
                pool.release("ann", lease.id)
        else:
            held |= got
