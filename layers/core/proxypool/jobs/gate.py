"""The gate of a domain: so many requests a second, so many at once, counted across all workers in one row of the state table.

A turn is an instant: a worker moves the row's `next_ms` on by one interval for each of its pages that ask at the same moment, in one
conditional write, and each page waits for its own.
A place ends by itself at its deadline, so a worker that dies keeps nobody out for long.
"""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass, field
from typing import Any, Final

from botocore.exceptions import ClientError

from proxypool import aws, clock
from proxypool.jobs.domains import Domain
from proxypool.jobs.together import Together

LONGEST_WAIT_SECONDS: Final = 10.0  # a later turn is not taken: the job is put back
PLACE_SECONDS: Final = 60.0
MOST_TURNS: Final = 64  # taken by one write
ROW_SECONDS: Final = 86_400
PAUSE_SECONDS: Final = 0.25


class NotNow(Exception):
    """The domain has no turn within the time that one may wait; `seconds` is when it may have."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"in {seconds:.1f} s")
        self.seconds = seconds


@dataclass(frozen=True, slots=True)
class Gate:
    """The gates of all domains, for one event loop."""

    table_name: str
    _asking: Together[Domain, None, float] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_asking", Together(self._waits, MOST_TURNS))

    async def enter(self, domain: Domain) -> str:
        """Waits for a turn and a place; returns the place, for `leave`. Raises NotNow."""
        wait_seconds = await self._asking.ask(domain, None)
        if wait_seconds > LONGEST_WAIT_SECONDS:
            raise NotNow(wait_seconds)
        await asyncio.sleep(wait_seconds)
        return await self._place(domain)

    async def leave(self, domain: Domain, place: str) -> None:
        """Gives the place back."""
        if place:
            await asyncio.to_thread(self._update, domain, "SET #place = :zero", {"#place": place}, {":zero": 0})

    async def _waits(self, domain: Domain, asking: list[None]) -> list[float]:
        """In how many seconds each may go; those for whom no turn could be taken hear when there would be one."""
        first_ms, taken = await asyncio.to_thread(self._turns, domain, len(asking))
        ahead_ms, step = first_ms - clock.epoch_ms(clock.now()), _step_ms(domain)
        late_ms = max(ahead_ms + taken * step, LONGEST_WAIT_SECONDS * 1000 + 1)
        return [
            max(0.0, ahead_ms + number * step) / 1000 if number < taken else (late_ms + (number - taken) * step) / 1000
            for number in range(len(asking))
        ]

    def _turns(self, domain: Domain, number: int) -> tuple[int, int]:
        """The instant of the next free turn, in epoch milliseconds, and how many from there on were taken: as many as may wait."""
        step, longest_ms = _step_ms(domain), round(LONGEST_WAIT_SECONDS * 1000)
        number = min(number, 1 + longest_ms // step)
        while True:
            now = clock.epoch_ms(clock.now())
            last = now + longest_ms - (number - 1) * step
            ends = {":end": now // 1000 + ROW_SECONDS}
            took = self._update(
                domain,
                "SET next_ms = next_ms + :steps, #ttl = :end",
                {"#ttl": "ttl"},
                {":steps": number * step, ":now": now, ":last": last, **ends},
                "next_ms BETWEEN :now AND :last",
            )
            if took is not None:
                return int(took["next_ms"]["N"]) - number * step, number
            took = self._update(
                domain,
                "SET next_ms = :next, #ttl = :end",
                {"#ttl": "ttl"},
                {":next": now + number * step, ":now": now, **ends},
                "attribute_not_exists(next_ms) OR next_ms < :now",
            )
            if took is not None:
                return now, number
            ahead = self._next_ms(domain) - now
            if ahead > longest_ms:
                return now + ahead, 0
            number = max(1, min(number, 1 + (longest_ms - ahead) // step))

    async def _place(self, domain: Domain) -> str:
        if not domain.concurrency:
            return ""
        end = time.monotonic() + LONGEST_WAIT_SECONDS
        while time.monotonic() < end:
            for number in random.sample(range(domain.concurrency), min(domain.concurrency, 4)):
                if await asyncio.to_thread(self._sit, domain, f"place_{number}"):
                    return f"place_{number}"
            await asyncio.sleep(PAUSE_SECONDS)
        raise NotNow(LONGEST_WAIT_SECONDS)

    def _sit(self, domain: Domain, place: str) -> bool:
        now = clock.epoch_ms(clock.now())
        values = {":until": now + round(PLACE_SECONDS * 1000), ":now": now}
        free = "attribute_not_exists(#place) OR #place < :now"
        return self._update(domain, "SET #place = :until", {"#place": place}, values, free) is not None

    def _next_ms(self, domain: Domain) -> int:
        answer = aws.client("dynamodb").get_item(TableName=self.table_name, Key=_key(domain), ConsistentRead=True)
        return int(answer.get("Item", {}).get("next_ms", {"N": "0"})["N"])

    def _update(
        self, domain: Domain, expression: str, names: dict[str, str], values: dict[str, int], condition: str = ""
    ) -> dict[str, Any] | None:
        """The row's new values, None where the condition does not hold."""
        extra = {"ConditionExpression": condition} if condition else {}
        try:
            answer = aws.client("dynamodb").update_item(
                TableName=self.table_name,
                Key=_key(domain),
                UpdateExpression=expression,
                ExpressionAttributeNames=names,
                ExpressionAttributeValues={name: {"N": str(value)} for name, value in values.items()},
                ReturnValues="UPDATED_NEW",
                **extra,
            )
        except ClientError as error:
            if error.response["Error"]["Code"] == "ConditionalCheckFailedException":
                return None
            raise
        found: dict[str, Any] = answer["Attributes"]
        return found


def _step_ms(domain: Domain) -> int:
    return max(1, round(1000 / domain.requests_per_second))


def _key(domain: Domain) -> dict[str, dict[str, str]]:
    return {"name": {"S": f"gate:{domain.name}"}}
