"""The cache users of infra/cache.yaml on Valkey in cluster mode: exactly the commands that the pool needs."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import redis
from proxypool.errors import Unavailable
from proxypool.leases.pool import Pool, Request
from proxypool.leases.redis.cache import Cache
from proxypool.leases.redis.keys import Keys
from proxypool.leases.sessions.store import Sessions
from proxypool.local.emulation import template
from proxypool_client.outcome import Outcome

from tests.support.leases import a_pool, a_record
from tests.support.servers import ROOT

USERS = {
    name: item["Properties"]
    for name, item in template.load(ROOT / "infra/cache.yaml")["Resources"].items()
    if item["Type"] == "AWS::ElastiCache::User"
}
PASSWORD = "a-token-of-fifteen-minutes"


@pytest.fixture(params=["LeaseUser", "ProjectorUser", "ExpiryUser"])
def pool(request: pytest.FixtureRequest, valkey_url: str) -> Iterator[Pool]:
    """An open pool with two proxies, reached as this user."""
    admin = a_pool(valkey_url, a_record(1), a_record(2))
    with as_user(valkey_url, request.param, admin.cache.keys.pool) as cache:
        yield replace(admin, cache=cache)


@contextmanager
def as_user(url: str, user: str, pool: str) -> Iterator[Cache]:
    """The cache of a pool, logged in as one of the template's users; the user is gone afterwards."""
    name, text = f"user-{uuid.uuid4().hex[:8]}", USERS[user]["AccessString"]["Fn::Sub"]
    with redis.Redis.from_url(url) as admin:
        admin.execute_command("ACL", "SETUSER", name, *text.replace("${Pool}", pool).split(), f">{PASSWORD}")
        cache = Cache(url.replace("://", f"://{name}:{PASSWORD}@"), Keys(pool))
        try:
            yield cache
        finally:
            cache.close()
            admin.execute_command("ACL", "DELUSER", name)


def test_a_user_may_do_all_that_the_pool_does(pool: Pool) -> None:
    """The login, every script, and the bridge's commands."""
    (lease,), _ = pool.acquire("ann", Request(ttl_seconds=60), key="k")
    pool.renew("ann", lease.id, 90)
    pool.report("ann", lease.id, Outcome.OK)
    assert pool.list_leases("ann")
    pool.release("ann", lease.id)

    keys, command = pool.cache.keys, pool.cache.command
    assert command("SET", keys.lock, "run", "NX", "PX", 1000)
    pool.cache.run("unlock", "run")
    command("HSET", keys.settings, "paused", "0")
    command("HDEL", keys.settings, "owner_quota")
    assert command("HGET", keys.settings, "epoch") == "1"
    assert command("HEXISTS", keys.leases, lease.id) == 0
    entries = command("XRANGE", keys.journal, "-", "+", "COUNT", 10)
    command("XTRIM", keys.journal, "MINID", entries[0][0])
    pool.cache.run("expire", 10)
    pool.cache.run("gauge", "http")


def test_the_lease_function_keeps_sessions_of_its_own_pool(valkey_url: str) -> None:
    """Sessions have separate slots, under the name of the pool."""
    with as_user(valkey_url, "LeaseUser", "main") as cache:
        sessions = Sessions(cache, 60, 600)
        assert sessions.put("ann", "s1", content={}, version=0).version == 1
        assert sessions.get("ann", "s1").version == 1
        sessions.delete("ann", "s1")
        with pytest.raises(Unavailable):
            cache.command("UNLINK", "{s:other:ann:s1}")


@pytest.mark.parametrize(
    "command",
    [
        ("GET", "{p:another}:lock"),
        ("SET", "anything", "x"),
        ("FLUSHALL",),
        ("KEYS", "*"),
        ("CONFIG", "GET", "*"),
        ("ACL", "LIST"),
        ("SHUTDOWN",),
        ("SWAPDB", 0, 1),
    ],
    ids=lambda command: command[0],
)
def test_a_user_reaches_no_other_pool_and_no_command_of_an_admin(pool: Pool, command: tuple[Any, ...]) -> None:
    """Input 63: what a caller might smuggle into a key or a script ends at the server's own rules."""
    with pytest.raises(Unavailable, match="NOPERM"):
        pool.cache.command(*command)


def test_a_script_may_not_touch_another_pool(pool: Pool) -> None:
    """The rules hold inside of scripts, too."""
    text = "#!lua\nreturn redis.call('SET', KEYS[1], 'x')"

    with pytest.raises(Unavailable):
        pool.cache.command("EVAL", text, 1, "{p:another}:epoch")


def test_the_default_user_may_do_nothing() -> None:
    """A user group must have one; it cannot log in."""
    assert USERS["DefaultUser"]["AccessString"] == "off -@all"
