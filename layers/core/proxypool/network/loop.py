"""The event loop of the batches: uvloop if installed (halves the CPU of a check), else asyncio's."""

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
except ImportError:  # not available on Windows
    new_loop = asyncio.new_event_loop


@cache
def _freeze_gc() -> None:
    """Excludes all loaded objects from garbage collection, so that a collection does not delay answers."""
    gc.collect()
    gc.freeze()


def run(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Runs a coroutine on a new loop, like asyncio.run."""
    _freeze_gc()
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(coroutine)
