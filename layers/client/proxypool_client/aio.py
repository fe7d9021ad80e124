"""The client for asyncio: many leases at once from one event loop."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from proxypool_client.api import TIMEOUT_SECONDS, find_url, parse_response, sign_headers, unreachable_error
from proxypool_client.errors import ApiError, LeaseLost, Unreachable
from proxypool_client.pool import MAX_PAUSE_SECONDS, RETRY_SECONDS, Lease, parse_leases
from proxypool_client.sessions import Session, parse_session

CONNECTIONS = 4  # a request takes milliseconds: more connections would only start more functions
QUEUE_SECONDS = 60.0  # how long a request may wait for a connection


@dataclass(slots=True)
class AsyncPool:
    """A pool of proxies behind its HTTP API; use it in an `async with` block.

    `url` is resolved by `find_url`, `verify` is that of httpx. `headers` are sent with a call in addition.
    """

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
        """The JSON of the response (None if it has no body). Raises ApiError or a subclass of it, or Unreachable."""
        content = b"" if body is None else json.dumps(body).encode()
        sent = ({"content-type": "application/json"} if content else {}) | dict(headers or {})
        try:
            response = await self._http.request(
                method,
                self.url + path,
                content=content,
                headers=sign_headers(self.url, self.region, method, path, sent, content),
            )
        except httpx.HTTPError as error:
            raise unreachable_error(self.url, error) from error
        return parse_response(response)

    async def acquire(
        self, *, wait_seconds: float = 0.0, headers: Mapping[str, str] | None = None, key: str = "", **filters: Any
    ) -> Lease:
        """Like `Pool.acquire`. `key` is the idempotency key; by default a random one."""
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
        """Like `Pool.acquire_many`."""
        body = filters | ({"count": count} if count > 1 else {})
        sent = {**(headers or {}), "idempotency-key": key or secrets.token_hex(16)}
        end, is_retry = time.monotonic() + wait_seconds, False
        while True:
            started = time.monotonic()
            try:
                return parse_leases(await self.request("POST", "/leases", body, sent), started)
            except Unreachable:
                if is_retry and started >= end:
                    raise
                is_retry, pause = True, RETRY_SECONDS
            except ApiError as error:
                if error.retry_after_seconds is None:
                    raise
                pause = min(error.retry_after_seconds, MAX_PAUSE_SECONDS)
                if time.monotonic() + pause > end:
                    raise
            await asyncio.sleep(pause)

    async def release(
        self, lease: Lease, outcome: str = "", *, headers: Mapping[str, str] | None = None, **fields: Any
    ) -> None:
        """Releases a lease and reports its outcome, if any; a lease that has ended is not an error.

        `fields` are other members of the request, e.g. `retry_after_seconds`; those that are None are not sent.
        """
        body = ({"outcome": outcome} if outcome else {}) | {
            name: value for name, value in fields.items() if value is not None
        }
        try:
            await self.request("POST", f"/leases/{lease.id}/release", body, headers)
        except LeaseLost:
            return

    async def release_many(
        self, lease_ids: Sequence[str], outcome: str = "", *, headers: Mapping[str, str] | None = None
    ) -> None:
        """Releases up to 100 leases in one request, all with this outcome; leases that have ended are ignored."""
        body = {"leases": list(lease_ids)} | ({"outcome": outcome} if outcome else {})
        await self.request("POST", "/leases/release", body, headers)

    async def session(self, session_id: str, *, headers: Mapping[str, str] | None = None) -> Session | None:
        """A stored session, or None."""
        try:
            return parse_session(await self.request("GET", f"/sessions/{session_id}", None, headers))
        except LeaseLost:
            return None

    async def save(self, session: Session, *, headers: Mapping[str, str] | None = None) -> int:
        """Stores a session if the stored version is still the one that it was read from (0: none); returns the new version.

        Raises VersionConflict if another client saved it first.
        """
        response = await self.request("PUT", f"/sessions/{session.id}", session.body(), headers)
        return int(response["version"])
