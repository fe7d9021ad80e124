"""The batcher: one call for all items submitted in one window, each with its own result or its own error."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from proxypool.jobs.batcher import Batcher

Calls = list[tuple[str, list[int]]]


def asked(calls: Calls, *wanted: tuple[str, int], most: int = 3) -> list[int | BaseException]:
    async def call(key: str, items: list[int]) -> Sequence[int | Exception]:
        calls.append((key, items))
        if key == "broken":
            raise ValueError(key)
        return [one * 10 if one else KeyError(one) for one in items]

    async def all_of_them() -> list[int | BaseException]:
        batcher = Batcher(call, most)
        return await asyncio.gather(*(batcher.submit(*one) for one in wanted), return_exceptions=True)

    return asyncio.run(all_of_them())


def test_those_who_ask_at_one_moment_are_one_call_per_key_and_page() -> None:
    calls: Calls = []

    found = asked(calls, ("a", 1), ("b", 2), ("a", 3), ("a", 4), ("a", 5))

    assert found == [10, 20, 30, 40, 50]
    assert sorted(calls) == [("a", [1, 3, 4]), ("a", [5]), ("b", [2])]


def test_one_items_error_is_its_own_and_a_calls_error_is_everybodys() -> None:
    """I14."""
    mixed, broken = asked([], ("a", 0), ("a", 1)), asked([], ("broken", 1), ("broken", 2), ("a", 1))

    assert isinstance(mixed[0], KeyError)
    assert mixed[1] == 10
    assert [type(one) for one in broken[:2]] == [ValueError, ValueError]
    assert broken[2] == 10


def test_who_does_not_wait_any_more_costs_the_others_nothing() -> None:
    async def call(_: None, items: list[int]) -> list[int]:
        return items

    async def one_leaves() -> int:
        batcher = Batcher(call, 5)
        leaves, stays = asyncio.create_task(batcher.submit(None, 1)), asyncio.create_task(batcher.submit(None, 2))
        await asyncio.sleep(0)
        leaves.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaves
        return await stays

    assert asyncio.run(one_leaves()) == 2
