"""Starts the emulator with patches for gaps that cannot be worked around from outside. Its version is pinned.

- PartiQL writes create no stream records; DynamoDB's do.
- A batch of SQS messages has at most ten and ignores the batching window, so that a hundred new proxies start ten functions.
- A restored state is inconsistent: positions in streams are restored, the streams are not, so that a function receives no
  records until their number exceeds the old position. And URLs of queues contain the port of the run that created them.
- Functions use the account id as access key; here they use the access key that `guard` requires.
- Each PartiQL statement is parsed twice, character by character: a quarter of its CPU time under load. Here results are cached.
"""

from __future__ import annotations

import copy
import os
import threading
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import ministack.app
from ministack.core import lambda_runtime
from ministack.core.concurrency import esm_wake
from ministack.services import _dynamodb_keywords, dynamodb, lambda_svc, sqs

from proxypool.local.emulation.guard import require_access_key

CACHED_STATEMENTS = 256
QUEUE_PORT = "4566"  # in the URLs of queues, on any port the emulator listens

Write = Callable[..., Any]
Parse = Callable[[str, Any], Any]
Receive = Callable[[str, int], list[dict[str, Any]]]

_lock = threading.RLock()
_set_item = dynamodb._set_item


def with_stream_records(write: Write) -> Write:
    """The PartiQL write, with a stream record per item."""

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


def without_stream_positions(restore: Callable[[Any], None]) -> Callable[[Any], None]:
    """The restore of the functions' state, without positions in streams: the streams are new in each run."""
    return lambda data: restore({**data, "dynamodb_stream_positions": {}} if data else data)


def with_cache_of_last(parse: Parse) -> Parse:
    """The parser of PartiQL statements, with its last result cached: the emulator calls it twice with the same arguments."""
    last: tuple[str, Any, Any] = ("", None, None)

    def parsed(statement: str, parameters: Any) -> Any:
        nonlocal last
        cached = last  # requests run in threads: the tuple that is compared must be the one that is returned
        if parameters is None or cached[1] is not parameters or cached[0] != statement:
            last = cached = (statement, parameters, parse(statement, parameters))
        return cached[2]

    return parsed


def with_batching_window(receive: Receive) -> Receive:
    """The receive of a batch for a function, with the mapping's batch size and batching window."""
    timers: dict[str, threading.Timer] = {}  # wake the poller at the end of a window: it sleeps up to a second

    def receive_batch(queue_url: str, batch_size: int) -> list[dict[str, Any]]:
        queue, now = sqs._get_q(queue_url), time.time()  # noqa: TID251 - the clock of the emulator's queues
        if not any(message["visible_at"] <= now for message in queue["messages"]):
            return []
        left = 0.0 if queue["is_fifo"] else seconds_left(queue, batch_size, now)
        if left > 0:
            if queue_url not in timers or not timers[queue_url].is_alive():
                timers[queue_url] = threading.Timer(left, esm_wake.set)
                timers[queue_url].start()
            return []
        batch = receive(queue_url, batch_size)
        if batch and not queue["is_fifo"]:
            with sqs._queues_lock:
                hidden_seconds = int(queue["attributes"].get("VisibilityTimeout", "30"))
                batch += sqs._collect_msgs(queue, batch_size - len(batch), hidden_seconds)
        return batch

    return receive_batch


def seconds_left(queue: dict[str, Any], batch_size: int, now: float) -> float:
    """The remaining seconds of the batching window; 0 if the batch is full or there is no message."""
    waiting = [float(message["visible_at"]) for message in queue["messages"] if message["visible_at"] <= now]
    if not waiting or len(waiting) >= batch_size:
        return 0.0
    return window_seconds(queue) - (now - min(waiting))


def window_seconds(queue: dict[str, Any]) -> float:
    """The batching window of the queue's event source mapping."""
    arn = queue["attributes"].get("QueueArn")
    mappings = [mapping for *_, mapping in lambda_svc._iter_all_esms() if mapping.get("EventSourceArn") == arn]
    return max((float(mapping.get("MaximumBatchingWindowInSeconds", 0)) for mapping in mappings), default=0.0)


def with_access_key(access_key: str, credentials: Callable[[Any], dict[str, str]]) -> Callable[[Any], dict[str, str]]:
    """The credentials in a function's environment, with this access key; they are valid for the default account."""
    return lambda config: {**credentials(config), "AWS_ACCESS_KEY_ID": access_key}


if __name__ == "__main__":
    access_key = os.environ["AWS_ACCESS_KEY_ID"]
    lambda_runtime.execution_credentials = with_access_key(access_key, lambda_runtime.execution_credentials)
    lambda_svc.execution_credentials = lambda_runtime.execution_credentials
    dynamodb._partiql_insert = with_stream_records(dynamodb._partiql_insert)
    dynamodb._partiql_update = with_stream_records(dynamodb._partiql_update)
    sqs._receive_messages_for_esm = with_batching_window(sqs._receive_messages_for_esm)
    lambda_svc._restore_state = without_stream_positions(lambda_svc._restore_state)
    sqs.DEFAULT_PORT, sqs._CANONICAL_NETLOC = QUEUE_PORT, f"{sqs.DEFAULT_HOST}:{QUEUE_PORT}"
    dynamodb._parse_partiql = with_cache_of_last(dynamodb._parse_partiql)
    _dynamodb_keywords._tokenize = lru_cache(CACHED_STATEMENTS)(_dynamodb_keywords._tokenize)
    ministack.app.app = require_access_key(
        ministack.app.app, access_key=access_key, port=int(os.environ["GATEWAY_PORT"])
    )
    ministack.app.main()
