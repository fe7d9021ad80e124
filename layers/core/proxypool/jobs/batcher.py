"""Batches the calls of concurrent tasks: items submitted within one window under the same key share one call.

A worker runs dozens of pages concurrently. Separate calls for each lease, release, turn and event took most of its CPU time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

WINDOW_SECONDS = 0.02

Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(slots=True)
class Batcher(Generic[Key, Item, Result]):
    """Batches one kind of call, for one event loop.

    Attributes:
        call: receives a key and up to `max_batch` items; returns for each item its result or its error.
    """

    call: Callable[[Key, list[Item]], Awaitable[Sequence[Result | Exception]]]
    max_batch: int
    _waiting: dict[Key, list[tuple[Item, asyncio.Future[Result]]]] = field(default_factory=dict, repr=False)
    _tasks: set[asyncio.Task[Any]] = field(default_factory=set, repr=False)

    async def submit(self, key: Key, item: Item) -> Result:
        """Returns the result for this item; raises its error, or the error of the call."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, []).append((item, future))
        if len(self._waiting[key]) == 1:
            task = asyncio.create_task(self._serve(key))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await future

    async def _serve(self, key: Key) -> None:
        await asyncio.sleep(WINDOW_SECONDS)
        waiting = self._waiting.pop(key)
        pages = [waiting[start : start + self.max_batch] for start in range(0, len(waiting), self.max_batch)]
        await asyncio.gather(*(self._page(key, page) for page in pages))

    async def _page(self, key: Key, page: list[tuple[Item, asyncio.Future[Result]]]) -> None:
        try:
            results = await self.call(key, [item for item, _ in page])
        except BaseException as error:  # any exception, else the submitters would wait for ever
            for _, future in page:
                if not future.done():
                    future.set_exception(error)
            return
        for (_, future), result in zip(page, results, strict=True):
            if future.done():
                continue
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)
