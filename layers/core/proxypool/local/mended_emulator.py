"""Starts the emulator with one gap mended inside of it: its PartiQL writes reach no stream, where DynamoDB's do.

Run as a module in the emulator's own process; the version is pinned, and a contract test watches the gap.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from typing import Any

from ministack.app import main
from ministack.services import dynamodb

Write = Callable[..., Any]

_lock = threading.RLock()
_set_item = dynamodb._set_item


def streaming(write: Write) -> Write:
    """The PartiQL write, with a stream record for each item that it set."""

    def written(table: dict[str, Any], *arguments: Any) -> Any:
        changes: list[tuple[dict[str, Any] | None, dict[str, Any]]] = []

        def set_item(table: dict[str, Any], partition: str, sort: str, item: dict[str, Any]) -> None:
            changes.append((copy.deepcopy(table["items"].get(partition, {}).get(sort)), item))
            _set_item(table, partition, sort, item)

        with _lock:
            dynamodb._set_item = set_item
            try:
                answer = write(table, *arguments)
            finally:
                dynamodb._set_item = _set_item
        for before, after in changes:
            dynamodb._emit_stream_event(table["TableName"], "MODIFY" if before else "INSERT", before, after)
        return answer

    return written


if __name__ == "__main__":
    dynamodb._partiql_insert = streaming(dynamodb._partiql_insert)
    dynamodb._partiql_update = streaming(dynamodb._partiql_update)
    main()
