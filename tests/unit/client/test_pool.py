"""The client against a real HTTP server on loopback: retries without a second lease, outcomes, and errors."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import httpx
import pytest
from proxypool_client import ApiError, LeaseLost, NotAllowed, Pool, PoolEmpty, Unreachable
from proxypool_client.api import TIMEOUT_SECONDS
from proxypool_client.clock import now
from proxypool_client.pool import classify_error

from tests.support.service import Service, service

LEASE = {
    "id": "a.1", "proxy_id": "b", "proxy_url": "http://u:s3cret@198.51.100.1:80", "protocol": "http", "exit_ip": "198.51.100.1",
    "country": "us", "anonymity": "elite", "score": 0.5, "fence": "1-0", "expires_at": "2026-11-30T12:00:00.000Z", "ttl_seconds": 60,
}  # fmt: skip


@pytest.fixture(name="service")
def _service() -> Iterator[Service]:
    with service() as found:
        yield found


def test_a_request_without_a_response_is_retried_with_the_same_key(service: Service) -> None:
    """I2, input 58."""
    service.script = ["drop", (200, LEASE, {})]
    with Pool(service.url) as pool:
        lease = pool.acquire(country="us")
    assert lease.id == "a.1"
    assert len({headers["idempotency-key"] for _, _, headers, _ in service.requests}) == 1
    assert [body for *_, body in service.requests] == [{"country": "us"}] * 2


def test_a_lease_has_its_session_and_whether_that_moved(service: Service) -> None:
    """Cases 22 and 23, I15: two owners have sessions of the same name; `moved` is set once."""
    pinned = LEASE | {"session_id": "shop", "moved": False}
    service.script = [
        (201, LEASE, {}),
        (201, pinned, {}),
        (201, pinned | {"moved": True}, {}),
        (200, {"leases": [pinned]}, {}),
    ]
    with Pool(service.url, owner="ann") as ann, Pool(service.url, owner="bob") as bob:
        plain, first = ann.acquire(), bob.acquire(session_id="shop")
        moved, (listed,) = ann.acquire(session_id="shop"), ann.list()

    sessions = [(lease.session_id, lease.moved) for lease in (plain, first, moved, listed)]
    assert sessions == [("", False), ("shop", False), ("shop", True), ("shop", False)]
    requests = [(headers["x-proxypool-owner"], body) for _, _, headers, body in service.requests[1:3]]
    assert requests == [("bob", {"session_id": "shop"}), ("ann", {"session_id": "shop"})]


def test_a_429_of_the_api_gateway_is_retried_within_the_wait(service: Service) -> None:
    """Input 92: it has neither a type nor a Retry-After."""
    throttled: Any = (429, {"message": "Too Many Requests"}, {})
    service.script = [throttled, (201, LEASE, {}), throttled]
    with Pool(service.url) as pool:
        assert pool.acquire(wait_seconds=60).id == "a.1"
        with pytest.raises(ApiError):
            pool.acquire()


def test_an_empty_pool_has_reasons_and_is_retried_within_the_wait(service: Service) -> None:
    """Input 65, case 33."""
    empty = (409, {"type": "pool_empty", "title": "none", "reasons": {"leased": 3}}, {"retry-after": "1"})
    service.script = [empty, (201, LEASE, {}), empty]
    with Pool(service.url) as pool:
        assert pool.acquire(wait_seconds=60).id == "a.1"
        with pytest.raises(PoolEmpty) as caught:
            pool.acquire()
    assert caught.value.reasons == {"leased": 3}


def test_the_release_of_an_ended_lease_raises_lease_lost(service: Service) -> None:
    """I3."""
    service.script = [(404, {"type": "not_found", "title": "no"}, {})]
    with Pool(service.url) as pool, pytest.raises(LeaseLost):
        pool.release("a.1")


@pytest.mark.parametrize(
    ("error", "outcome"),
    [(None, {"outcome": "ok"}), (KeyError("mine"), {}), (httpx.ProxyError("no"), {"outcome": "proxy_error"})],
)
def test_a_block_releases_its_lease_with_the_outcome_of_its_exception(
    service: Service, error: Exception | None, outcome: object
) -> None:
    service.script = [(201, LEASE, {}), (204, None, {})]

    def work() -> None:
        with Pool(service.url) as pool, pool.lease():
            if error:
                raise error

    if error:
        with pytest.raises(type(error)):
            work()
    else:
        work()
    assert service.requests[-1][1] == "/leases/a.1/release"
    assert service.requests[-1][3] == outcome


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (httpx.ReadTimeout(""), "timeout"),
        (httpx.ConnectError(""), "proxy_error"),
        (httpx.UnsupportedProtocol(""), ""),
        (httpx.InvalidURL(""), ""),
    ],
)
def test_only_errors_of_the_connection_are_reported_for_the_proxy(error: Exception, outcome: str) -> None:
    assert classify_error(error) == outcome


def test_a_lease_shows_no_password(service: Service) -> None:
    """I19, case 36."""
    service.script = [(201, LEASE, {})]
    with Pool(service.url) as pool:
        assert "s3cret" not in repr(pool.acquire())


def test_a_refused_connection_raises_unreachable() -> None:
    with Pool("http://127.0.0.1:9") as pool, pytest.raises(Unreachable):
        pool.acquire()


def test_the_environments_proxy_is_not_used_for_the_api(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Input 50."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    service.script = [(201, LEASE, {})]
    with Pool(service.url) as pool:
        assert pool.acquire().id == "a.1"


class Clock:
    """A monotonic clock that is advanced by sleeps and requests only."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr("proxypool_client.pool.time.monotonic", lambda: self.now)
        monkeypatch.setattr("proxypool_client.pool.time.sleep", self.move)

    def move(self, seconds: float) -> None:
        self.now += seconds


@pytest.mark.parametrize("wait_seconds", [0.3, 2, 7, 25])
@pytest.mark.parametrize("silent", [True, False])
def test_a_wait_ends_within_its_time_limit(monkeypatch: pytest.MonkeyPatch, wait_seconds: float, silent: bool) -> None:
    """Input 65: a silent pool exhausts each request's time limit, an empty one sends Retry-After."""
    clock, tries = Clock(monkeypatch), []

    def request(*_: object, seconds: float) -> None:
        tries.append(seconds)
        clock.move(seconds if silent else 0.05)
        raise Unreachable("no") if silent else PoolEmpty(409, {"type": "pool_empty"}, 3)

    with Pool("http://127.0.0.1:9") as pool:
        monkeypatch.setattr(type(pool.api), "request", lambda self, *parts, **limit: request(*parts, **limit))
        with pytest.raises(Unreachable if silent else PoolEmpty):
            pool.acquire(wait_seconds=wait_seconds)

    assert clock.now <= wait_seconds + 0.11
    assert max(tries) <= TIMEOUT_SECONDS


def test_without_a_wait_a_request_is_retried_once(service: Service) -> None:
    """I2."""
    service.script = ["drop", "drop", (201, LEASE, {})]

    with Pool(service.url) as pool, pytest.raises(Unreachable):
        pool.acquire()

    assert len(service.requests) == 2


def test_several_leases_are_acquired_in_one_request(service: Service) -> None:
    service.script = [(201, {"leases": [LEASE, LEASE | {"id": "a.2"}]}, {})]

    with Pool(service.url) as pool:
        found = pool.acquire_many(3, at_least=2, country="us")

    assert [lease.id for lease in found] == ["a.1", "a.2"]
    assert service.requests[0][3] == {"at_least": 2, "country": "us", "count": 3}


def test_the_deadline_of_a_lease_read_later_follows_from_its_expiry_not_from_its_ttl(service: Service) -> None:
    """A restarted process finds its leases; their TTL counts from the grant."""
    soon = LEASE | {"expires_at": (now() + timedelta(seconds=5)).isoformat()}
    service.script = [(200, soon, {}), (200, {"leases": [soon]}, {}), (200, {"leases": []}, {})]

    with Pool(service.url) as pool:
        one, (same,), none = pool.get("a.1"), pool.list(), pool.list()

    assert one.id == same.id
    assert one.deadline - time.monotonic() < 6
    assert none == []
    assert service.routes == ["GET /leases/a.1", "GET /leases", "GET /leases"]


def test_a_renewed_lease_is_extended_by_the_difference_of_the_ttls(service: Service) -> None:
    """I5: both TTLs count from the grant, so that no second is counted twice."""
    service.script = [(201, LEASE, {}), (200, LEASE | {"ttl_seconds": 90}, {})]

    with Pool(service.url) as pool:
        lease = pool.acquire()
        renewed = pool.renew(lease, 60)

    assert renewed.deadline == pytest.approx(lease.deadline + 30, abs=1e-6)
    assert replace(renewed, deadline=lease.deadline, ttl_seconds=60) == lease


@pytest.mark.parametrize(
    ("status", "body"),
    [(401, {"type": "unidentified", "title": "The caller has no identity"}), (403, {"message": "Forbidden"})],
)
def test_refused_credentials_raise_not_allowed(service: Service, status: int, body: object) -> None:
    """With the body of the pool and with that of API Gateway."""
    service.script = [(status, body, {})]

    with Pool(service.url) as pool, pytest.raises(NotAllowed, match=r"identity|Forbidden"):
        pool.acquire()


def test_an_id_is_one_segment_of_a_path(service: Service) -> None:
    """Input 63."""
    service.script = [(404, {"type": "not_found", "title": "no"}, {})]

    with Pool(service.url) as pool, pytest.raises(LeaseLost):
        pool.get("../sources?x=1")

    assert service.routes == ["GET /leases/..%2Fsources%3Fx%3D1"]
