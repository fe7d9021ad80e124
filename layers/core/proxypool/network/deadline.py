"""A timeout that does not blame the peer when our own event loop was late: received data is read first."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Final, cast

_LATE_SECONDS: Final = 0.05  # above the usual delay of a busy loop


class Deadline:
    """`with Deadline(seconds)`: raises TimeoutError if the block takes longer, like asyncio.timeout.

    If a timer fires late, the loop was blocked (throttled CPU, garbage collection) and answers may be unread. The
    deadline is then extended once, by the delay.
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
        fires_at = self._loop.time() + seconds
        self._timer = self._loop.call_at(fires_at, self._fire, fires_at)

    def _fire(self, fires_at: float) -> None:
        delay = self._loop.time() - fires_at
        if delay > _LATE_SECONDS and not self._was_late:
            self._was_late = True
            self._start(delay)
            return
        self._fired = True
        self._task.cancel()
