"""The gate of a domain: so many requests a second, so many at once, counted across all workers in one row of the state table.

A turn is an instant: each caller moves the row's `next_ms` on by one interval in one conditional write, and waits for its own.
A place ends by itself at its deadline, so a worker that dies keeps nobody out for long.
"""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass
from typing import Any, Final

from botocore.exceptions import ClientError

from proxypool import aws
from proxypool.jobs.domains import Domain

LONGEST_WAIT_SECONDS: Final = 10.0  # a later turn is not taken: the job is put back
PLACE_SECONDS: Final = 60.0
ROW_SECONDS: Final = 86_400
PAUSE_SECONDS: Final = 0.25


class NotNow(Exception):
    """The domain has no turn within the time that one may wait; `seconds` is when it may have."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"in {seconds:.1f} s")
        self.seconds = seconds


@dataclass(frozen=True, slots=True)
class Gate:
    """The gates of all domains."""

    table_name: str

    async def enter(self, domain: Domain) -> str:
        """Waits for a turn and a place; returns the place, for `leave`. Raises NotNow."""
        turn_ms = await asyncio.to_thread(self._turn, domain)
        await asyncio.sleep(max(0.0, turn_ms / 1000 - time.time()))
        return await self._place(domain)

    async def leave(self, domain: Domain, place: str) -> None:
        """Gives the place back."""
        if place:
            await asyncio.to_thread(self._update, domain, "SET #place = :zero", {"#place": place}, {":zero": 0})

    def _turn(self, domain: Domain) -> int:
        """The instant of the next free turn, in epoch milliseconds, taken."""
        step = max(1, round(1000 / domain.requests_per_second))
        while True:
            now = round(time.time() * 1000)
            last = now + round(LONGEST_WAIT_SECONDS * 1000)
            ends = {":end": now // 1000 + ROW_SECONDS}
            took = self._update(
                domain,
                "SET next_ms = next_ms + :step, #ttl = :end",
                {"#ttl": "ttl"},
                {":step": step, ":now": now, ":last": last, **ends},
                "next_ms BETWEEN :now AND :last",
            )
            if took is not None:
                return int(took["next_ms"]["N"]) - step
            took = self._update(
                domain,
                "SET next_ms = :next, #ttl = :end",
                {"#ttl": "ttl"},
                {":next": now + step, ":now": now, **ends},
                "attribute_not_exists(next_ms) OR next_ms < :now",
            )
            if took is not None:
                return now
            ahead = self._next_ms(domain) - now
            if ahead > LONGEST_WAIT_SECONDS * 1000:
                raise NotNow(ahead / 1000)

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
        now = round(time.time() * 1000)
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


def _key(domain: Domain) -> dict[str, dict[str, str]]:
    return {"name": {"S": f"gate:{domain.name}"}}
