"""A limit of time that is not blamed on the other side when our own loop was late: what came meanwhile is read first."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Final, cast

_LATE_SECONDS: Final = 0.05  # more than a busy loop's usual delay


class Deadline:
    """`with Deadline(seconds)`: TimeoutError when the block takes longer, as with asyncio.timeout.

    A timer that fires late says that the loop stood still (a throttled CPU, a collection of garbage): answers may lie
    unread. It then waits as long again as it was late, once, before it ends the block.
    """

    __slots__ = ("_cancelling", "_fired", "_loop", "_seconds", "_task", "_timer", "_was_late")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._fired = self._was_late = False

    def __enter__(self) -> None:
        self._loop = loop = asyncio.get_running_loop()
        self._task = task = cast("asyncio.Task[object]", asyncio.current_task(loop))
        self._cancelling = task.cancelling()
        self._start(self._seconds)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        if self._fired and self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def _start(self, seconds: float) -> None:
        at = self._loop.time() + seconds
        self._timer = self._loop.call_at(at, self._fire, at)

    def _fire(self, at: float) -> None:
        late = self._loop.time() - at
        if late > _LATE_SECONDS and not self._was_late:
            self._was_late = True
            self._start(late)
            return
        self._fired = True
        self._task.cancel()
