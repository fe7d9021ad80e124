"""Calls of many runs made as one: what is asked within a moment of each other, and under the same key, goes out together.

A worker runs dozens of pages at once, and each would lease, give back, take a turn and tell by a call of its own: most of its CPU.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

MOMENT_SECONDS = 0.02

Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")
Found = TypeVar("Found")


@dataclass(slots=True)
class Together(Generic[Key, Item, Found]):
    """One kind of call, for one event loop. `call` gets a key and up to `most` items, and returns what each of them found, or the
    error that it alone met.
    """

    call: Callable[[Key, list[Item]], Awaitable[Sequence[Found | Exception]]]
    most: int
    _waiting: dict[Key, list[tuple[Item, asyncio.Future[Found]]]] = field(default_factory=dict, repr=False)
    _tasks: set[asyncio.Task[Any]] = field(default_factory=set, repr=False)

    async def ask(self, key: Key, item: Item) -> Found:
        """What the call found for this item; raises its error, or the call's."""
        mine: asyncio.Future[Found] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, []).append((item, mine))
        if len(self._waiting[key]) == 1:
            task = asyncio.create_task(self._serve(key))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await mine

    async def _serve(self, key: Key) -> None:
        await asyncio.sleep(MOMENT_SECONDS)
        waiting = self._waiting.pop(key)
        pages = [waiting[at : at + self.most] for at in range(0, len(waiting), self.most)]
        await asyncio.gather(*(self._page(key, page) for page in pages))

    async def _page(self, key: Key, page: list[tuple[Item, asyncio.Future[Found]]]) -> None:
        try:
            found = await self.call(key, [item for item, _ in page])
        except BaseException as error:  # whatever it is: those who wait hear it
            for _, mine in page:
                if not mine.done():
                    mine.set_exception(error)
            return
        for (_, mine), one in zip(page, found, strict=True):
            if mine.done():
                continue
            if isinstance(one, Exception):
                mine.set_exception(one)
            else:
                mine.set_result(one)
