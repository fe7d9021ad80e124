"""Sessions on Valkey in cluster mode: isolation of owners, compare-and-set, expiry."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
from proxypool.config.settings import Settings
from proxypool.errors import NotFound, VersionConflict
from proxypool.leases.redis.cache import Cache
from proxypool.leases.sessions.store import Sessions

from tests.support.clock import Clock
from tests.support.leases import a_pool, an_event, respond

SETTINGS = Settings(allow_loopback=True)
COOKIE = {"name": "sid", "value": "1", "domain": "shop.example"}


@pytest.fixture
def cache(valkey_url: str) -> Iterator[Cache]:
    found = a_pool(valkey_url).cache
    yield found
    found.close()


@pytest.fixture
def sessions(cache: Cache) -> Sessions:
    return Sessions(cache, 60, 600)


@pytest.fixture
def ask(valkey_url: str) -> Iterator[Callable[..., tuple[int, Any]]]:
    """One call of the sessions' API."""
    pool = a_pool(valkey_url)
    sessions = Sessions(pool.cache, 3_600, 86_400)

    def call(method: str, name: str, body: object = None, owner: str = "ann") -> tuple[int, Any]:
        event = an_event(f"{method} /sessions/{{id}}", body, lease_id=name, x_proxypool_owner=owner)
        response = respond(event, pool, SETTINGS, sessions)
        return response["statusCode"], json.loads(response.get("body", "null"))

    yield call
    sessions.cache.close()


def name() -> str:
    return f"s-{uuid4().hex[:8]}"


def test_a_session_belongs_to_one_owner(ask: Callable[..., tuple[int, Any]]) -> None:
    """Input 68, I15: the same id of another owner is not there, whether one reads or removes."""
    session = name()
    assert ask("PUT", session, {"version": 0, "cookies": [COOKIE]})[0] == 201

    assert ask("GET", session, owner="bob")[0] == 404
    assert ask("DELETE", session, owner="bob")[0] == 404
    assert ask("PUT", session, {"version": 0, "tokens": {"t": "bob's"}}, owner="bob")[0] == 201
    assert ask("GET", session)[1]["cookies"] == [COOKIE]


def test_the_second_of_two_saves_gets_a_conflict(ask: Callable[..., tuple[int, Any]]) -> None:
    """Input 69, I16: no update is lost silently."""
    session = name()
    ask("PUT", session, {"version": 0})
    assert ask("PUT", session, {"version": 1, "tokens": {"a": "1"}}) == (
        200,
        {"id": session, "version": 2, "ttl_seconds": 3600},
    )

    status, problem = ask("PUT", session, {"version": 1, "tokens": {"a": "2"}})

    assert (status, problem["type"], problem["version"]) == (409, "version_conflict", 2)
    assert ask("GET", session)[1]["tokens"] == {"a": "1"}


def test_two_owners_save_sessions_of_one_name_concurrently(sessions: Sessions) -> None:
    """Inputs 68 and 69, two owners in each."""
    session = name()
    for owner in ("ann", "bob"):
        sessions.put(owner, session, content={"tokens": {"who": owner}}, version=0)

    assert sessions.get("ann", session).tokens == {"who": "ann"}
    assert sessions.get("bob", session).tokens == {"who": "bob"}


def test_a_session_ends_after_its_idle_time(cache: Cache) -> None:
    """By the server's clock, which ages its key out."""
    sessions = Sessions(cache, 1, 600)
    sessions.put("ann", "idle", content={}, version=0)
    time.sleep(1.1)

    with pytest.raises(NotFound):
        sessions.get("ann", "idle")
    assert sessions.put("ann", "idle", content={}, version=0).version == 1


def test_a_session_ends_after_its_life_however_often_it_is_used(cache: Cache, clock: Clock) -> None:
    clock.stop()
    sessions, left = Sessions(cache, 60, 100), []
    sessions.put("ann", "short", content={}, version=0)

    for _ in range(2):
        clock.move(seconds=45)
        left.append(sessions.get("ann", "short").ttl_seconds)
    clock.move(seconds=10)

    assert left == [55, 10]
    with pytest.raises(NotFound):
        sessions.get("ann", "short")


def test_a_shorter_maximum_life_ends_older_sessions(cache: Cache) -> None:
    """Independent of the TTL of its key; the name can be used again."""
    session = name()
    Sessions(cache, 60, 600).put("ann", session, content={}, version=0)

    with pytest.raises(NotFound):
        Sessions(cache, 60, 0).get("ann", session)

    assert Sessions(cache, 60, 600).put("ann", session, content={}, version=0).version == 1


def test_a_use_extends_the_session(cache: Cache) -> None:
    sessions, session = Sessions(cache, 600, 9_000), name()
    sessions.put("ann", session, content={}, version=0)
    key = sessions._key("ann", session)
    cache.command("EXPIRE", key, 60)

    assert sessions.get("ann", session).ttl_seconds == 600
    assert 60 < cache.command("TTL", key) <= 600


def test_a_body_of_another_schema_is_no_session(sessions: Sessions) -> None:
    """Input 70: a session of an unknown schema version is treated as absent; nothing is unpickled."""
    session = name()
    sessions.put("ann", session, content={"v": 99}, version=0)
    sessions.put("bob", session, content={"tokens": {}}, version=0)

    with pytest.raises(NotFound):
        sessions.get("ann", session)
    assert sessions.get("bob", session).version == 1


def test_another_version_is_a_conflict(sessions: Sessions) -> None:
    with pytest.raises(VersionConflict):
        sessions.put("ann", name(), content={}, version=3)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"version": -1}, "version"),
        ({"version": True}, "version"),
        ({"version": 0, "pickle": "x"}, "pickle"),
        ({"version": 0, "cookies": {}}, "cookies"),
        ({"version": 0, "cookies": [{"name": "a"}]}, "cookies[0].value"),
        ({"version": 0, "cookies": [COOKIE | {"value": "a\r\nb"}]}, "cookies[0].value"),
        ({"version": 0, "cookies": [COOKIE | {"secure": "yes"}]}, "cookies[0].secure"),
        ({"version": 0, "cookies": [COOKIE | {"evil": 1}]}, "cookies[0].evil"),
        ({"version": 0, "headers": {"X-A": "a\r\nX-B: b"}}, "headers.X-A"),
        ({"version": 0, "tokens": {"t": 5}}, "tokens.t"),
    ],
)
def test_an_invalid_field_of_a_session_is_named(ask: Callable[..., tuple[int, Any]], body: object, field: str) -> None:
    """Inputs 55 and 70."""
    status, problem = ask("PUT", name(), body)

    assert status == 422
    assert field in {error["field"] for error in problem["errors"]}


@pytest.mark.parametrize("session", ["a:b", "a}b", "a b", "ü", "x" * 65, "a/b"])
def test_an_unknown_session_is_not_found(ask: Callable[..., tuple[int, Any]], session: str) -> None:
    """Input 63: nothing of a name leaves its place in the key."""
    assert ask("GET", session)[0] == 404
    assert ask("PUT", session, {"version": 0})[0] == 404
