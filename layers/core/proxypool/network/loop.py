"""The event loop that batches run on: uvloop where it is there (a check then costs half), asyncio's own elsewhere."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine
from functools import cache
from typing import Any, TypeVar

Result = TypeVar("Result")

new_loop: Callable[[], asyncio.AbstractEventLoop]
try:
    from uvloop import new_event_loop as new_loop
except ImportError:  # Windows has none
    new_loop = asyncio.new_event_loop


@cache
def _settle() -> None:
    """What a process has loaded stays: the collector of garbage need not walk it while answers wait to be read."""
    gc.collect()
    gc.freeze()


def run(work: Coroutine[Any, Any, Result]) -> Result:
    """Runs one batch on a loop of its own, as asyncio.run does."""
    _settle()
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(work)
