"""The rate limit and the concurrency limit of a domain, shared by all workers through one row of the state table.

A turn is an instant: one conditional write moves the row's `next_ms` on by one interval for each page of a batch, and each page waits
for its own turn. A place expires at its deadline, so a worker that dies blocks others for a minute at most.
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
from proxypool.aws.dynamodb import bind, find, took
from proxypool.errors import ProxyPoolError
from proxypool.jobs.batcher import Batcher
from proxypool.jobs.fetch.domains import Domain

MAX_WAIT_SECONDS: Final = 10.0  # a later turn is not taken: the job is requeued
PLACE_SECONDS: Final = 60.0
MAX_TURNS: Final = 64  # taken by one write
ROW_SECONDS: Final = 86_400
PAUSE_SECONDS: Final = 0.25


class RateLimited(ProxyPoolError):
    """The domain has no turn within MAX_WAIT_SECONDS; it may have one in `seconds`."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"in {seconds:.1f} s")
        self.seconds = seconds


class GateItem(Model):
    """A domain's row in the state table. Beside these it has `place_0`, `place_1`, …: when each place is free again (epoch ms)."""

    name = UnicodeAttribute(hash_key=True)
    next_ms = NumberAttribute(null=True)
    expires_at = NumberAttribute(attr_name="ttl", null=True)


@dataclass(frozen=True, slots=True)
class Gate:
    """The gates of all domains, for one event loop."""

    table_name: str
    _asking: Batcher[Domain, None, float] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_asking", Batcher(self._waits, MAX_TURNS))

    async def enter(self, domain: Domain) -> str:
        """Waits for a turn and a place; returns the place, for `leave`. Raises RateLimited."""
        wait_seconds = await self._asking.submit(domain, None)
        if wait_seconds > MAX_WAIT_SECONDS:
            raise RateLimited(wait_seconds)
        await asyncio.sleep(wait_seconds)
        return await self._place(domain)

    async def leave(self, domain: Domain, place: str) -> None:
        """Frees the place."""
        if place:
            await asyncio.to_thread(self._item(domain).update, actions=[Path(place).set(0)])

    async def _waits(self, domain: Domain, asking: list[None]) -> list[float]:
        """In how many seconds each page may go; more than MAX_WAIT_SECONDS for those without a turn."""
        first_ms, taken = await asyncio.to_thread(self._turns, domain, len(asking))
        ahead_ms, step = first_ms - clock.epoch_ms(clock.now()), _step_ms(domain)
        late_ms = max(ahead_ms + taken * step, MAX_WAIT_SECONDS * 1000 + 1)
        return [
            max(0.0, ahead_ms + number * step) / 1000 if number < taken else (late_ms + (number - taken) * step) / 1000
            for number in range(len(asking))
        ]

    def _turns(self, domain: Domain, number: int) -> tuple[int, int]:
        """The instant of the next free turn, in epoch milliseconds, and how many from there on were taken: as many as may wait."""
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

    async def _place(self, domain: Domain) -> str:
        if not domain.concurrency:
            return ""
        end = time.monotonic() + MAX_WAIT_SECONDS
        while time.monotonic() < end:
            for number in random.sample(range(domain.concurrency), min(domain.concurrency, 4)):
                if await asyncio.to_thread(self._sit, domain, f"place_{number}"):
                    return f"place_{number}"
            await asyncio.sleep(PAUSE_SECONDS)
        raise RateLimited(MAX_WAIT_SECONDS)

    def _sit(self, domain: Domain, place: str) -> bool:
        now, until = clock.epoch_ms(clock.now()), Path(place)
        free = until.does_not_exist() | (until < now)
        taken = until.set(now + round(PLACE_SECONDS * 1000))
        return took(lambda: self._item(domain).update(actions=[taken], condition=free))

    def _advance(self, domain: Domain, next_ms: Any, condition: Condition, now: int) -> GateItem | None:
        """The row with its new `next_ms`; None where the condition does not hold."""
        item = self._item(domain)
        actions: list[Any] = [GateItem.next_ms.set(next_ms), GateItem.expires_at.set(now // 1000 + ROW_SECONDS)]
        return item if took(lambda: item.update(actions=actions, condition=condition)) else None

    def _next_ms(self, domain: Domain) -> int:
        item = find(self._model, _name(domain))
        return int(item.next_ms or 0) if item is not None else 0

    def _item(self, domain: Domain) -> GateItem:
        return self._model(_name(domain))

    @property
    def _model(self) -> type[GateItem]:
        return bind(GateItem, self.table_name)


def _step_ms(domain: Domain) -> int:
    return max(1, round(1000 / domain.requests_per_second))


def _name(domain: Domain) -> str:
    return f"gate:{domain.name}"
