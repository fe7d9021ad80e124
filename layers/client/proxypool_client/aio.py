"""The same pool for asyncio: many leases at once from one event loop."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from proxypool_client.api import TIMEOUT_SECONDS, find_url, read, signed, unreachable
from proxypool_client.errors import LeaseLost, Refused, Unreachable
from proxypool_client.pool import MAX_PAUSE_SECONDS, RETRY_SECONDS, Lease, leases_of
from proxypool_client.sessions import Session, session_of

CONNECTIONS = 4  # a call takes milliseconds: more at once would only start more functions
QUEUE_SECONDS = 60.0  # how long a call may wait for one of them


@dataclass(slots=True)
class AsyncPool:
    """A pool of proxies behind its HTTP API; use it in an `async with` block. `headers` of a call name whom it is for."""

    url: str = ""
    region: str = ""
    verify: Any = True
    _http: httpx.AsyncClient = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.url = find_url(self.url)
        limits = httpx.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS)
        timeout = httpx.Timeout(TIMEOUT_SECONDS, pool=QUEUE_SECONDS)
        self._http = httpx.AsyncClient(trust_env=False, timeout=timeout, limits=limits, verify=self.verify)

    async def __aenter__(self) -> AsyncPool:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def request(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Any:
        """The answer's JSON (None where it has no body). Raises Refused or one of its kinds, or Unreachable."""
        content = b"" if body is None else json.dumps(body).encode()
        sent = ({"content-type": "application/json"} if content else {}) | dict(headers or {})
        try:
            answer = await self._http.request(
                method,
                self.url + path,
                content=content,
                headers=signed(self.url, self.region, method, path, sent, content),
            )
        except httpx.HTTPError as error:
            raise unreachable(self.url, error) from error
        return read(answer)

    async def acquire(
        self, *, wait_seconds: float = 0.0, headers: Mapping[str, str] | None = None, key: str = "", **filters: Any
    ) -> Lease:
        """A lease, as `Pool.acquire` gives one. `key` is the idempotency key; a random one where there is none."""
        return (await self.acquire_many(1, wait_seconds=wait_seconds, headers=headers, key=key, **filters))[0]

    async def acquire_many(
        self,
        count: int,
        *,
        wait_seconds: float = 0.0,
        headers: Mapping[str, str] | None = None,
        key: str = "",
        **filters: Any,
    ) -> list[Lease]:
        """Up to `count` leases in one step, `at_least` (1) of them; else as `acquire`."""
        body = filters | ({"count": count} if count > 1 else {})
        sent = {**(headers or {}), "idempotency-key": key or secrets.token_hex(16)}
        end, lost_before = time.monotonic() + wait_seconds, False
        while True:
            asked = time.monotonic()
            try:
                return leases_of(await self.request("POST", "/leases", body, sent), asked)
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
            await asyncio.sleep(pause)

    async def release(
        self, lease: Lease, outcome: str = "", *, headers: Mapping[str, str] | None = None, **told: Any
    ) -> None:
        """Gives the proxy back, with the outcome where there is one; a lease that is over already is given back, too."""
        body = ({"outcome": outcome} if outcome else {}) | {
            name: value for name, value in told.items() if value is not None
        }
        try:
            await self.request("POST", f"/leases/{lease.id}/release", body, headers)
        except LeaseLost:
            return

    async def release_many(
        self, lease_ids: Sequence[str], outcome: str = "", *, headers: Mapping[str, str] | None = None
    ) -> None:
        """Gives up to 100 back in one step, all with this outcome; those that are over already are left alone."""
        told = {"leases": list(lease_ids)} | ({"outcome": outcome} if outcome else {})
        await self.request("POST", "/leases/release", told, headers)

    async def session(self, session_id: str, *, headers: Mapping[str, str] | None = None) -> Session | None:
        """A stored session, None where there is none."""
        try:
            return session_of(await self.request("GET", f"/sessions/{session_id}", None, headers))
        except LeaseLost:
            return None

    async def save(self, session: Session, *, headers: Mapping[str, str] | None = None) -> int:
        """Stores a session over the version that it was read at (0: a new one) and returns its new version; raises
        VersionConflict where somebody else was first.
        """
        answer = await self.request("PUT", f"/sessions/{session.id}", session.body(), headers)
        return int(answer["version"])
