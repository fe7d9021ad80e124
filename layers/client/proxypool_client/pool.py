"""The client: acquire, renew, report and release leases."""

from __future__ import annotations

import builtins
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import Any
from urllib.parse import quote

import httpx

from proxypool_client import clock
from proxypool_client.api import TIMEOUT_SECONDS, Api, find_url
from proxypool_client.errors import ApiError, PoolError, Unreachable

MAX_PAUSE_SECONDS = 30.0  # between two attempts, whatever Retry-After says
RETRY_SECONDS = 0.2  # after a request without a response
MIN_REQUEST_SECONDS = 0.1  # time limit of the last request of a wait
EXPIRY_MARGIN_SECONDS = 2.0  # a lease counts as expired this long before its end


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The exclusive right to use a proxy until `deadline` (monotonic clock of this process, counted from before the request).

    `moved` is True once after a session moved to another exit: state that the site bound to the old one (a login, a cart) may be
    lost.
    """

    id: str
    proxy_id: str
    proxy_url: str = field(repr=False)  # contains the password
    protocol: str
    exit_ip: str | None
    country: str | None
    anonymity: str | None
    score: float
    fence: str
    expires_at: str
    ttl_seconds: int
    session_id: str = ""
    moved: bool = False
    deadline: float = field(repr=False)

    @property
    def is_expired(self) -> bool:
        """True from two seconds before the end of the lease on: stop using the proxy."""
        return time.monotonic() >= self.deadline - EXPIRY_MARGIN_SECONDS


class Pool:
    """A pool of proxies behind its HTTP API; use it in a `with` block.

    `url` is resolved by `find_url`. `owner` is the caller's name on a local stack; elsewhere the credentials identify the caller.
    """

    def __init__(self, url: str = "", *, owner: str = "") -> None:
        self.api = Api(find_url(url), owner)

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.api.close()

    def acquire(self, *, wait_seconds: float = 0.0, **filters: Any) -> Lease:
        """A lease of a proxy that matches `filters` (members of POST /leases, except `count`).

        Waits up to `wait_seconds` for a free proxy, then raises PoolEmpty; 0 does not wait. A request without a response is
        retried with the same idempotency key, so that it never leases a second proxy; raises Unreachable if that fails, and
        another ApiError if the pool rejects the request.
        """
        return self.acquire_many(1, wait_seconds=wait_seconds, **filters)[0]

    def acquire_many(self, count: int, *, wait_seconds: float = 0.0, **filters: Any) -> builtins.list[Lease]:
        """Up to `count` leases in one request, at least `at_least` (default 1) of them; otherwise like `acquire`."""
        body = filters | ({"count": count} if count > 1 else {})
        headers = {"idempotency-key": secrets.token_hex(16)}
        end = time.monotonic() + wait_seconds
        is_retry = False
        while True:
            started = time.monotonic()
            seconds = min(TIMEOUT_SECONDS, max(MIN_REQUEST_SECONDS, end - started)) if wait_seconds else TIMEOUT_SECONDS
            try:
                return parse_leases(self.api.request("POST", "/leases", body, headers, seconds=seconds), started)
            except Unreachable:
                pause, is_last = RETRY_SECONDS, is_retry or wait_seconds > 0
                is_retry = True
                if is_last and time.monotonic() + pause >= end:
                    raise
            except ApiError as error:
                if error.retry_after_seconds is None:
                    raise
                pause = min(error.retry_after_seconds, MAX_PAUSE_SECONDS)
                if time.monotonic() + pause > end:
                    raise
            time.sleep(pause)

    def get(self, lease_id: str) -> Lease:
        """One of the caller's live leases, e.g. one of an earlier process; raises LeaseLost."""
        started = time.monotonic()
        return _with_remaining_time(
            parse_lease(self.api.request("GET", f"/leases/{quote(lease_id, safe='')}"), started)
        )

    def list(self) -> builtins.list[Lease]:
        """The caller's live leases, ordered by their end."""
        started = time.monotonic()
        return [_with_remaining_time(lease) for lease in parse_leases(self.api.request("GET", "/leases"), started)]

    def renew(self, lease: Lease, ttl_seconds: int) -> Lease:
        """The lease, extended to `ttl_seconds` from now; raises LeaseLost if it has ended."""
        started = time.monotonic()
        response = self.api.request("POST", f"/leases/{lease.id}/renew", {"ttl_seconds": ttl_seconds})
        renewed = parse_lease(response, started)
        # `ttl_seconds` counts from the grant in both, so that the difference is the extension.
        return replace(renewed, deadline=lease.deadline + renewed.ttl_seconds - lease.ttl_seconds)

    def report(self, lease: Lease, outcome: str) -> None:
        """Reports an outcome without releasing the lease; raises LeaseLost if it has ended."""
        self.api.request("POST", f"/leases/{lease.id}/report", {"outcome": outcome})

    def release(self, lease: Lease | str, outcome: str = "") -> None:
        """Releases a lease (or the id of one) and reports its outcome, if any; raises LeaseLost if it has ended."""
        lease_id = lease if isinstance(lease, str) else lease.id
        self.api.request("POST", f"/leases/{quote(lease_id, safe='')}/release", {"outcome": outcome} if outcome else {})

    @contextmanager
    def lease(self, *, wait_seconds: float = 0.0, **filters: Any) -> Iterator[Lease]:
        """A lease for a block, released at its end: as `ok`, or as `classify_error` of the exception that the block raised."""
        lease = self.acquire(wait_seconds=wait_seconds, **filters)
        outcome = "ok"
        try:
            yield lease
        except BaseException as error:
            outcome = classify_error(error)
            raise
        finally:
            with suppress(ApiError, Unreachable):  # then it expires
                self.release(lease, outcome)


def classify_error(error: BaseException) -> str:
    """The outcome of a request that raised `error` of httpx: "timeout", "proxy_error", or "" if the proxy did not cause it."""
    if isinstance(error, httpx.TimeoutException):
        return "timeout"
    return "proxy_error" if isinstance(error, httpx.ProxyError | httpx.NetworkError | httpx.RemoteProtocolError) else ""


def parse_leases(response: Any, started: float) -> builtins.list[Lease]:
    """The leases of a response with one lease or with a list `leases`; otherwise like `parse_lease`."""
    leases = response.get("leases") if isinstance(response, dict) else None
    return [parse_lease(lease, started) for lease in ([response] if leases is None else leases)]


def parse_lease(response: Any, started: float) -> Lease:
    """A lease from the JSON of a response; `started` is when the request began (monotonic). Raises PoolError if it is none."""
    if not isinstance(response, dict) or "id" not in response:
        raise PoolError("the response is not a lease")
    names = {field.name for field in fields(Lease)}
    values = {name: value for name, value in response.items() if name in names}
    return Lease(**values, deadline=started + float(response["ttl_seconds"]))


def _with_remaining_time(lease: Lease) -> Lease:
    """A lease read after its grant, with the deadline that follows from `expires_at` and this machine's clock."""
    left = (datetime.fromisoformat(lease.expires_at) - clock.now()).total_seconds()
    return replace(lease, deadline=min(lease.deadline, time.monotonic() + left))
