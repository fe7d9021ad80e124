"""Leases for workers: acquire, keep, report, give back."""

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
from proxypool_client.errors import PoolError, Refused, Unreachable

MAX_PAUSE_SECONDS = 30.0
RETRY_SECONDS = 0.2
LEAST_SECONDS = 0.1  # of a request, at the very end of a wait
MARGIN_SECONDS = 2.0  # a lease is let go this much before its end


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A proxy that is yours alone until `deadline` (this process's monotonic clock, counted from before the request).

    With a session, `moved` says that it has just left the proxy it had, or its name at a gateway: the site sees another exit
    from here on, so what was bound to the old one (a login, a cart) may have to be made anew. It is said once.
    """

    id: str
    proxy_id: str
    proxy_url: str = field(repr=False)  # holds the password
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
    def is_over(self) -> bool:
        """Whether it is time to stop using the proxy."""
        return time.monotonic() >= self.deadline - MARGIN_SECONDS


class Pool:
    """A pool of proxies behind its HTTP API. `url` is found as `find_url` says; close it, or use it in a `with` block."""

    def __init__(self, url: str = "", *, owner: str = "") -> None:
        self.api = Api(find_url(url), owner)

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.api.close()

    def acquire(self, *, wait_seconds: float = 0.0, **filters: Any) -> Lease:
        """A lease of a proxy that fits `filters` (the members of POST /leases, but for `count`).

        Waits up to `wait_seconds` for one to come free, and not longer; then raises PoolEmpty. 0: it is asked for once. A lost
        answer is asked for again with the same key, so that it never costs a second lease; raises Unreachable where that fails.
        """
        return self.acquire_many(1, wait_seconds=wait_seconds, **filters)[0]

    def acquire_many(self, count: int, *, wait_seconds: float = 0.0, **filters: Any) -> builtins.list[Lease]:
        """Up to `count` leases in one step, `at_least` (1) of them; else as `acquire`."""
        body = filters | ({"count": count} if count > 1 else {})
        headers = {"idempotency-key": secrets.token_hex(16)}
        end = time.monotonic() + wait_seconds
        lost_before = False
        while True:
            asked = time.monotonic()
            seconds = min(TIMEOUT_SECONDS, max(LEAST_SECONDS, end - asked)) if wait_seconds else TIMEOUT_SECONDS
            try:
                return leases_of(self.api.request("POST", "/leases", body, headers, seconds=seconds), asked)
            except Unreachable:
                pause, last = RETRY_SECONDS, lost_before or wait_seconds > 0
                lost_before = True
                if last and time.monotonic() + pause >= end:
                    raise
            except Refused as refusal:
                if refusal.retry_after_seconds is None:
                    raise
                pause = min(refusal.retry_after_seconds, MAX_PAUSE_SECONDS)
                if time.monotonic() + pause > end:
                    raise
            time.sleep(pause)

    def get(self, lease_id: str) -> Lease:
        """One of your live leases, e.g. of a process before; raises LeaseLost."""
        asked = time.monotonic()
        return _remaining(lease_of(self.api.request("GET", f"/leases/{quote(lease_id, safe='')}"), asked))

    def list(self) -> builtins.list[Lease]:
        """Your live leases, soonest end first."""
        asked = time.monotonic()
        return [_remaining(lease) for lease in leases_of(self.api.request("GET", "/leases"), asked)]

    def renew(self, lease: Lease, ttl_seconds: int) -> Lease:
        """The lease with its new end; raises LeaseLost where it is over."""
        asked = time.monotonic()
        found = lease_of(self.api.request("POST", f"/leases/{lease.id}/renew", {"ttl_seconds": ttl_seconds}), asked)
        # Both count their seconds from the grant: the difference is what the end has moved.
        return replace(found, deadline=lease.deadline + found.ttl_seconds - lease.ttl_seconds)

    def report(self, lease: Lease, outcome: str) -> None:
        """Tells an outcome and keeps the lease; raises LeaseLost where it is over."""
        self.api.request("POST", f"/leases/{lease.id}/report", {"outcome": outcome})

    def release(self, lease: Lease | str, outcome: str = "") -> None:
        """Gives the proxy back, with the outcome where there is one; raises LeaseLost where the lease is over."""
        name = lease if isinstance(lease, str) else lease.id
        self.api.request("POST", f"/leases/{quote(name, safe='')}/release", {"outcome": outcome} if outcome else {})

    @contextmanager
    def lease(self, *, wait_seconds: float = 0.0, **filters: Any) -> Iterator[Lease]:
        """A lease for a block, given back at its end: as `ok`, or by `blame` of what the block raised."""
        lease = self.acquire(wait_seconds=wait_seconds, **filters)
        outcome = "ok"
        try:
            yield lease
        except BaseException as error:
            outcome = blame(error)
            raise
        finally:
            with suppress(Refused, Unreachable):  # then it ends at its time
                self.release(lease, outcome)


def blame(error: BaseException) -> str:
    """The outcome that an exception of httpx tells of the proxy; "" (none) for what is not the proxy's doing."""
    if isinstance(error, httpx.TimeoutException):
        return "timeout"
    return "proxy_error" if isinstance(error, httpx.ProxyError | httpx.NetworkError | httpx.RemoteProtocolError) else ""


def leases_of(answer: Any, asked: float) -> builtins.list[Lease]:
    """One lease or several, as the answer has them."""
    several = answer.get("leases") if isinstance(answer, dict) else None
    return [lease_of(one, asked) for one in ([answer] if several is None else several)]


def lease_of(answer: Any, asked: float) -> Lease:
    """A lease from the answer to a request that was sent at `asked` (monotonic); raises PoolError where it is none."""
    if not isinstance(answer, dict) or "id" not in answer:
        raise PoolError("the pool's answer is not a lease")
    known = {one.name for one in fields(Lease)}
    values = {name: value for name, value in answer.items() if name in known}
    return Lease(**values, deadline=asked + float(answer["ttl_seconds"]))


def _remaining(lease: Lease) -> Lease:
    """A lease that was looked up: its seconds began at the grant, so that its end counts, by this machine's clock."""
    left = (datetime.fromisoformat(lease.expires_at) - clock.now()).total_seconds()
    return replace(lease, deadline=min(lease.deadline, time.monotonic() + left))
