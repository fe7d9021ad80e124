"""The rate limit and the concurrency limit of a domain, shared by all workers through one row of the state table.

A turn is an instant: one conditional write advances the row's `next_ms` by one interval for each page of a batch, and each page waits
for its own turn. A slot expires at its deadline, so a worker that crashes blocks others for at most a minute.
"""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass, field
from typing import Any, Final

from pynamodb.attributes import NumberAttribute, UnicodeAttribute
from pynamodb.expressions.condition import Condition
from pynamodb.expressions.operand import Path
from pynamodb.models import Model

from proxypool import clock
from proxypool.aws.dynamodb import bind_table, get_item, try_write
from proxypool.errors import ProxyPoolError
from proxypool.jobs.batcher import Batcher
from proxypool.jobs.fetch.domains import Domain

MAX_WAIT_SECONDS: Final = 10.0  # if the next turn is later, the job is requeued
SLOT_SECONDS: Final = 60.0
MAX_TURNS: Final = 64  # taken by one write
ROW_TTL_SECONDS: Final = 86_400
POLL_SECONDS: Final = 0.25


class RateLimited(ProxyPoolError):
    """The domain has no turn or no free slot within MAX_WAIT_SECONDS; `seconds` is when a retry may help."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"in {seconds:.1f} s")
        self.seconds = seconds


class GateItem(Model):
    """The row of a domain in the state table. Its attributes `place_0`, `place_1`, … are the deadlines of its slots (epoch ms)."""

    name = UnicodeAttribute(hash_key=True)
    next_ms = NumberAttribute(null=True)
    expires_at = NumberAttribute(attr_name="ttl", null=True)


@dataclass(frozen=True, slots=True)
class Gate:
    """The gates of all domains, for one event loop."""

    table_name: str
    _batcher: Batcher[Domain, None, float] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_batcher", Batcher(self._waits, MAX_TURNS))

    async def enter(self, domain: Domain) -> str:
        """Waits for a turn and a slot; returns the slot, to be passed to `leave`. Raises RateLimited."""
        wait_seconds = await self._batcher.submit(domain, None)
        if wait_seconds > MAX_WAIT_SECONDS:
            raise RateLimited(wait_seconds)
        await asyncio.sleep(wait_seconds)
        return await self._acquire_slot(domain)

    async def leave(self, domain: Domain, slot: str) -> None:
        """Frees the slot."""
        if slot:
            await asyncio.to_thread(self._item(domain).update, actions=[Path(slot).set(0)])

    async def _waits(self, domain: Domain, pages: list[None]) -> list[float]:
        """Seconds until the turn of each page; more than MAX_WAIT_SECONDS for a page without one."""
        first_ms, taken = await asyncio.to_thread(self._take_turns, domain, len(pages))
        ahead_ms, step = first_ms - clock.epoch_ms(clock.now()), _step_ms(domain)
        late_ms = max(ahead_ms + taken * step, MAX_WAIT_SECONDS * 1000 + 1)
        return [
            max(0.0, ahead_ms + number * step) / 1000 if number < taken else (late_ms + (number - taken) * step) / 1000
            for number in range(len(pages))
        ]

    def _take_turns(self, domain: Domain, number: int) -> tuple[int, int]:
        """Takes up to `number` turns that are not too late; returns the first one (epoch milliseconds) and how many were taken."""
        step, longest_ms = _step_ms(domain), round(MAX_WAIT_SECONDS * 1000)
        number = min(number, 1 + longest_ms // step)
        while True:
            now = clock.epoch_ms(clock.now())
            last = now + longest_ms - (number - 1) * step
            waits = GateItem.next_ms.between(now, last)
            item = self._advance(domain, GateItem.next_ms + number * step, waits, now)
            if item is not None:
                return int(item.next_ms or 0) - number * step, number
            is_idle = GateItem.next_ms.does_not_exist() | (GateItem.next_ms < now)
            if self._advance(domain, now + number * step, is_idle, now) is not None:
                return now, number
            ahead = self._next_ms(domain) - now
            if ahead > longest_ms:
                return now + ahead, 0
            number = max(1, min(number, 1 + (longest_ms - ahead) // step))

    async def _acquire_slot(self, domain: Domain) -> str:
        if not domain.concurrency:
            return ""
        end = time.monotonic() + MAX_WAIT_SECONDS
        while time.monotonic() < end:
            for number in random.sample(range(domain.concurrency), min(domain.concurrency, 4)):
                if await asyncio.to_thread(self._take_slot, domain, f"place_{number}"):
                    return f"place_{number}"
            await asyncio.sleep(POLL_SECONDS)
        raise RateLimited(MAX_WAIT_SECONDS)

    def _take_slot(self, domain: Domain, slot: str) -> bool:
        now, deadline = clock.epoch_ms(clock.now()), Path(slot)
        is_free = deadline.does_not_exist() | (deadline < now)
        take = deadline.set(now + round(SLOT_SECONDS * 1000))
        return try_write(lambda: self._item(domain).update(actions=[take], condition=is_free))

    def _advance(self, domain: Domain, next_ms: Any, condition: Condition, now: int) -> GateItem | None:
        """Sets `next_ms` and returns the row; None if the condition failed."""
        item = self._item(domain)
        actions: list[Any] = [GateItem.next_ms.set(next_ms), GateItem.expires_at.set(now // 1000 + ROW_TTL_SECONDS)]
        return item if try_write(lambda: item.update(actions=actions, condition=condition)) else None

    def _next_ms(self, domain: Domain) -> int:
        item = get_item(self._model, _name(domain))
        return int(item.next_ms or 0) if item is not None else 0

    def _item(self, domain: Domain) -> GateItem:
        return self._model(_name(domain))

    @property
    def _model(self) -> type[GateItem]:
        return bind_table(GateItem, self.table_name)


def _step_ms(domain: Domain) -> int:
    return max(1, round(1000 / domain.requests_per_second))


def _name(domain: Domain) -> str:
    return f"gate:{domain.name}"
