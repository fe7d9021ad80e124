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
    filters: str  # as JSON: equal filters share a batch


class _ReleaseKey(NamedTuple):
    owner: str
    outcome: str


@dataclass(slots=True)
class Leases:
    """The leases of one batch. `behalf_header` is the request header that names the owner of the leases."""

    pool: AsyncPool
    behalf_header: str
    _acquiring: Batcher[_AcquireKey, str, Lease | None] = field(init=False, repr=False)
    _releasing: Batcher[_ReleaseKey, str, None] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._acquiring = Batcher(self._acquire_many, MAX_ACQUIRED)
        self._releasing = Batcher(self._release_many, MAX_RELEASED)

    async def acquire_now(self, owner: str, filters: Mapping[str, Any], *, key: str) -> Lease | None:
        """Acquires a lease without waiting, batched with equal requests; None if there were too few proxies.

        `key` is the idempotency key of this request. Raises Unreachable.
        """
        return await self._acquiring.submit(_AcquireKey(owner, json.dumps(filters, sort_keys=True)), key)

    async def acquire(self, owner: str, filters: Mapping[str, Any], *, key: str, wait_seconds: float) -> Lease:
        """Acquires a lease in a separate call that waits for a free proxy; raises the errors of AsyncPool.acquire."""
        return await self.pool.acquire(wait_seconds=wait_seconds, headers=self._headers(owner), key=key, **filters)

    async def release(
        self, owner: str, lease: Lease, outcome: str = "", retry_after_seconds: int | None = None
    ) -> None:
        """Releases a lease with its outcome; raises PoolError."""
        if retry_after_seconds is None:
            await self._releasing.submit(_ReleaseKey(owner, outcome), lease.id)
        else:
            await self.pool.release(lease, outcome, headers=self._headers(owner), retry_after=str(retry_after_seconds))

    async def _acquire_many(self, batch: _AcquireKey, keys: list[str]) -> list[Lease | None]:
        key = blake2b("\n".join(keys).encode(), digest_size=16).hexdigest()
        filters = json.loads(batch.filters)
        try:
            leases = await self.pool.acquire_many(len(keys), headers=self._headers(batch.owner), key=key, **filters)
        except ApiError:  # each submitter then calls `acquire`, which raises the reason
            leases = []
        return [*leases, *[None] * (len(keys) - len(leases))]

    async def _release_many(self, batch: _ReleaseKey, lease_ids: list[str]) -> list[None]:
        await self.pool.release_many(lease_ids, batch.outcome, headers=self._headers(batch.owner))
        return [None] * len(lease_ids)

    def _headers(self, owner: str) -> dict[str, str]:
        return {self.behalf_header: owner}
