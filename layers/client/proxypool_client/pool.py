"""Leases for workers: acquire, keep, report, give back."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields
from typing import Any

import httpx

from proxypool_client.api import Api, find_url
from proxypool_client.errors import PoolError, Refused, Unreachable

MAX_PAUSE_SECONDS = 30.0
RETRY_SECONDS = 0.2
MARGIN_SECONDS = 2.0  # a lease is let go this much before its end


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A proxy that is yours alone until `deadline` (this process's monotonic clock, counted from before the request)."""

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
        """A lease of a proxy that fits `filters` (the members of POST /leases). A lost answer is asked for again with the same
        key, so that it never costs a second lease. Waits up to `wait_seconds` for one to come free; then raises PoolEmpty.
        """
        key, end = secrets.token_hex(16), time.monotonic() + wait_seconds
        lost_before = False
        while True:
            asked = time.monotonic()
            try:
                return lease_of(self.api.request("POST", "/leases", filters, {"idempotency-key": key}), asked)
            except Unreachable:
                if lost_before and asked >= end:
                    raise
                lost_before, pause = True, RETRY_SECONDS
            except Refused as refusal:
                if refusal.retry_after_seconds is None:
                    raise
                pause = min(refusal.retry_after_seconds, MAX_PAUSE_SECONDS)
                if time.monotonic() + pause > end:
                    raise
            time.sleep(pause)

    def renew(self, lease: Lease, ttl_seconds: int) -> Lease:
        """The lease with its new end; raises LeaseLost where it is over."""
        asked = time.monotonic()
        return lease_of(self.api.request("POST", f"/leases/{lease.id}/renew", {"ttl_seconds": ttl_seconds}), asked)

    def report(self, lease: Lease, outcome: str) -> None:
        """Tells an outcome and keeps the lease; raises LeaseLost where it is over."""
        self.api.request("POST", f"/leases/{lease.id}/report", {"outcome": outcome})

    def release(self, lease: Lease | str, outcome: str = "") -> None:
        """Gives the proxy back, with the outcome where there is one; raises LeaseLost where the lease is over."""
        name = lease if isinstance(lease, str) else lease.id
        self.api.request("POST", f"/leases/{name}/release", {"outcome": outcome} if outcome else {})

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


def lease_of(answer: Any, asked: float) -> Lease:
    """A lease from the answer to a request that was sent at `asked` (monotonic); raises PoolError where it is none."""
    if not isinstance(answer, dict) or "id" not in answer:
        raise PoolError("the pool's answer is not a lease")
    known = {one.name for one in fields(Lease)}
    values = {name: value for name, value in answer.items() if name in known}
    return Lease(**values, deadline=asked + float(answer["ttl_seconds"]))
