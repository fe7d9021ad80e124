"""The batcher: one call for all items of a window, each with its own result or error."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from proxypool.jobs.batcher import Batcher

Calls = list[tuple[str, list[int]]]


def submit_all(calls: Calls, *items: tuple[str, int], max_batch: int = 3) -> list[int | BaseException]:
    async def call(key: str, batch: list[int]) -> Sequence[int | Exception]:
        calls.append((key, batch))
        if key == "broken":
            raise ValueError(key)
        return [item * 10 if item else KeyError(item) for item in batch]

    async def submit() -> list[int | BaseException]:
        batcher = Batcher(call, max_batch)
        return await asyncio.gather(*(batcher.submit(*item) for item in items), return_exceptions=True)

    return asyncio.run(submit())


def test_items_of_one_window_share_a_call_per_key_and_page() -> None:
    calls: Calls = []

    results = submit_all(calls, ("a", 1), ("b", 2), ("a", 3), ("a", 4), ("a", 5))

    assert results == [10, 20, 30, 40, 50]
    assert sorted(calls) == [("a", [1, 3, 4]), ("a", [5]), ("b", [2])]


def test_an_item_can_fail_alone_and_an_error_of_the_call_fails_its_items() -> None:
    """I14."""
    mixed, broken = submit_all([], ("a", 0), ("a", 1)), submit_all([], ("broken", 1), ("broken", 2), ("a", 1))

    assert isinstance(mixed[0], KeyError)
    assert mixed[1] == 10
    assert [type(error) for error in broken[:2]] == [ValueError, ValueError]
    assert broken[2] == 10


def test_a_cancelled_item_does_not_affect_the_others() -> None:
    async def call(_: None, items: list[int]) -> list[int]:
        return items

    async def cancel_one() -> int:
        batcher = Batcher(call, 5)
        cancelled, other = asyncio.create_task(batcher.submit(None, 1)), asyncio.create_task(batcher.submit(None, 2))
        await asyncio.sleep(0)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        return await other

    assert asyncio.run(cancel_one()) == 2
