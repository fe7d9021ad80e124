"""Members of an older or newer layout under the current scripts. On a real Valkey."""

from __future__ import annotations

import pytest
from proxypool.errors import PoolEmpty
from proxypool.leases.filters import FILTERS, LAYOUT_VERSION
from proxypool.leases.index.ready import Index
from proxypool.leases.pool import Request, Strategy
from proxypool.leases.redis.keys import MEMBER_ID, MEMBER_PREFIX, ready_set

from tests.support.lease_filters import EXAMPLES, Example, fitting, layout_without
from tests.support.leases import a_pool, a_record

STORED = [example for example in EXAMPLES if next(row for row in FILTERS if row.name == example.name).key]


@pytest.mark.parametrize("example", STORED, ids=lambda one: one.name)
def test_a_member_of_an_older_layout_fits_what_does_not_use_the_new_filter(valkey_url: str, example: Example) -> None:
    """No error for the new filter either: the proxy does not fit it until its member is written again."""
    record = a_record(1, **fitting())
    with layout_without(example.name):
        pool = a_pool(valkey_url, record)
    others = {one.name: one.wanted for one in EXAMPLES if one.name != example.name}

    (lease,), _ = pool.acquire("ann", Request(ttl_seconds=60, **others))
    pool.release("ann", lease.id)
    with pytest.raises(PoolEmpty) as caught:
        pool.acquire("ann", Request(ttl_seconds=60, **{example.name: example.wanted}))
    assert caught.value.problem()["reasons"]["filtered"] == 1

    Index(pool.cache, 3600).upsert([record], again=True)
    assert pool.acquire("bob", Request(ttl_seconds=60, **{example.name: example.wanted}, **others))[0]


def test_a_member_of_a_newer_layout_fits_under_the_older_script(valkey_url: str) -> None:
    """While a deployment replaces one function after the other, or after a rollback."""
    pool = a_pool(valkey_url, a_record(1, **fitting()))

    with layout_without("region"):
        assert pool.acquire("ann", Request(ttl_seconds=60, tags=("a", "b"), source="s2", https=True))[0]


def test_a_member_of_another_head_is_passed_over(valkey_url: str) -> None:
    """Its id and exit are in other places: it is not misread, and the others are leased."""
    pool, good = a_pool(valkey_url, a_record(1), a_record(2)), a_record(2)
    key = f"{pool.cache.keys.tag}:{ready_set('http', '*', 2)}"
    for member in pool.cache.command("ZRANGE", key, 0, -1):
        if member[MEMBER_ID] != good.id:
            pool.cache.command("ZREM", key, member)
            pool.cache.command("ZADD", key, 999_999_999, f"1r00050{member[MEMBER_ID]}127.1.0.1|by|,a,|,s1,")

    for wanted in (Request(ttl_seconds=60), Request(ttl_seconds=60, https=True)):
        (lease,), _ = pool.acquire("ann", wanted)
        assert lease.proxy_id == good.id
        with pytest.raises(PoolEmpty):
            pool.acquire("ann", wanted)
        pool.release("ann", lease.id)


@pytest.mark.parametrize("strategy", Strategy)
@pytest.mark.parametrize(
    "member",
    [MEMBER_PREFIX, f"{MEMBER_PREFIX}||||", f"{LAYOUT_VERSION}{'0' * 20}127.1.0.9|h1|l1|"],
    ids=["cut", "split", "orphan"],
)
def test_a_member_without_a_proxy_is_passed_over(valkey_url: str, member: str, strategy: Strategy) -> None:
    """It has no room for a lease; it must not make an error of every request that draws it."""
    pool = a_pool(valkey_url, a_record(1))
    pool.cache.command("ZADD", f"{pool.cache.keys.tag}:{ready_set('http', '*', 2)}", 999_999_999, member)

    for owner in ("ann", "bob", "eve"):
        ((lease,), _) = pool.acquire(owner, Request(ttl_seconds=60, strategy=strategy))
        assert lease.proxy_id == a_record(1).id
        pool.release(owner, lease.id)
