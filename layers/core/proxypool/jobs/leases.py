"""The leases of a worker's runs, acquired and released in batches."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from proxypool_client.aio import AsyncPool
from proxypool_client.errors import ApiError
from proxypool_client.pool import Lease

from proxypool.jobs.batcher import Batcher

MAX_ACQUIRED: Final = 50  # of one call
MAX_RELEASED: Final = 100


class _AcquireKey(NamedTuple):
    owner: str
    filters: str  # as JSON: equal filters are one batch


class _ReleaseKey(NamedTuple):
    owner: str
    outcome: str


@dataclass(slots=True)
class Leases:
    """The leases of one batch. `behalf_header` is the header that names the owner for whom the worker leases."""

    pool: AsyncPool
    behalf_header: str
    _acquiring: Batcher[_AcquireKey, str, Lease | None] = field(init=False, repr=False)
    _releasing: Batcher[_ReleaseKey, str, None] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._acquiring = Batcher(self._acquire_many, MAX_ACQUIRED)
        self._releasing = Batcher(self._release_many, MAX_RELEASED)

    async def acquire_now(self, owner: str, filters: Mapping[str, Any], *, key: str) -> Lease | None:
        """One of the leases that are free now, acquired together with equal requests; None if there were too few.

        `key` is this request's own; raises Unreachable.
        """
        return await self._acquiring.submit(_AcquireKey(owner, json.dumps(filters, sort_keys=True)), key)

    async def acquire(self, owner: str, filters: Mapping[str, Any], *, key: str, wait_seconds: float) -> Lease:
        """One lease by a call of its own, waiting for a free proxy; raises as AsyncPool.acquire does."""
        return await self.pool.acquire(wait_seconds=wait_seconds, headers=self._headers(owner), key=key, **filters)

    async def release(
        self, owner: str, lease: Lease, outcome: str = "", retry_after_seconds: int | None = None
    ) -> None:
        """Releases a lease with its outcome; raises PoolError."""
        if retry_after_seconds is None:
            await self._releasing.submit(_ReleaseKey(owner, outcome), lease.id)
        else:
            told = {"retry_after": str(retry_after_seconds)}
            await self.pool.release(lease, outcome, headers=self._headers(owner), **told)

    async def _acquire_many(self, wanted: _AcquireKey, keys: list[str]) -> list[Lease | None]:
        key = blake2b("\n".join(keys).encode(), digest_size=16).hexdigest()
        filters = json.loads(wanted.filters)
        try:
            found = await self.pool.acquire_many(len(keys), headers=self._headers(wanted.owner), key=key, **filters)
        except ApiError:  # each then acquires alone, and gets the reason
            found = []
        return [*found, *[None] * (len(keys) - len(found))]

    async def _release_many(self, told: _ReleaseKey, lease_ids: list[str]) -> list[None]:
        await self.pool.release_many(lease_ids, told.outcome, headers=self._headers(told.owner))
        return [None] * len(lease_ids)

    def _headers(self, owner: str) -> dict[str, str]:
        return {self.behalf_header: owner}
