"""Starts the emulator with its gaps mended that only its own process can mend. The version is pinned, contract tests watch the gaps.

Its PartiQL writes reach no stream, where DynamoDB's do. Its batches of SQS messages hold ten at most and wait for no window, so that
a hundred new proxies start ten cold functions at once.

What it saves and loads again does not fit together: a function's place in a stream is kept, the stream is not, so that the function
would sleep until as many records came as ever before; and a queue is known by a URL with the port of the run that made it, so that on
another port no function hears of its messages.

Its functions call it with their account's id as access key: here they bring the key that `guard` asks for.

It also reads each PartiQL statement letter by letter, twice: a quarter of its time where the pool writes much. Here it reads a text once.
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

from proxypool.local.emulation.guard import guarded

STATEMENTS_KEPT = 256
QUEUE_PORT = "4566"  # in the names of queues, wherever the emulator listens

Write = Callable[..., Any]
Parse = Callable[[str, Any], Any]
Receive = Callable[[str, int], list[dict[str, Any]]]

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


def from_the_start(restore: Callable[[Any], None]) -> Callable[[Any], None]:
    """The loading of the functions' state, without places in streams: those begin anew with each run."""
    return lambda data: restore({**data, "dynamodb_stream_positions": {}} if data else data)


def reading_once(parse: Parse) -> Parse:
    """The parse of a PartiQL statement; each of a batch is asked for twice in a row, with the very same list of parameters."""
    last: tuple[str, Any, Any] = ("", None, None)

    def parsed(statement: str, parameters: Any) -> Any:
        nonlocal last
        kept = last  # requests run in threads: what is compared must be what is returned
        if parameters is None or kept[1] is not parameters or kept[0] != statement:
            last = kept = (statement, parameters, parse(statement, parameters))
        return kept[2]

    return parsed


def gathering(receive: Receive) -> Receive:
    """The receipt of a batch for a function: as many messages as its mapping says, after its batching window."""
    alarms: dict[str, threading.Timer] = {}  # the poller sleeps up to a second: each ends its sleep at a window's end

    def gathered(queue_url: str, batch_size: int) -> list[dict[str, Any]]:
        queue, now = sqs._get_q(queue_url), time.time()  # noqa: TID251 - the clock of the emulator's queues
        if not any(message["visible_at"] <= now for message in queue["messages"]):
            return []
        left = 0.0 if queue["is_fifo"] else seconds_left(queue, batch_size, now)
        if left > 0:
            if queue_url not in alarms or not alarms[queue_url].is_alive():
                alarms[queue_url] = threading.Timer(left, esm_wake.set)
                alarms[queue_url].start()
            return []
        batch = receive(queue_url, batch_size)
        if batch and not queue["is_fifo"]:
            with sqs._queues_lock:
                hidden_seconds = int(queue["attributes"].get("VisibilityTimeout", "30"))
                batch += sqs._collect_msgs(queue, batch_size - len(batch), hidden_seconds)
        return batch

    return gathered


def seconds_left(queue: dict[str, Any], batch_size: int, now: float) -> float:
    """How long the batch may still gather: until it is full, or the window since its first message is over."""
    waiting = [float(message["visible_at"]) for message in queue["messages"] if message["visible_at"] <= now]
    if not waiting or len(waiting) >= batch_size:
        return 0.0
    return window_seconds(queue) - (now - min(waiting))


def window_seconds(queue: dict[str, Any]) -> float:
    """The batching window of the mapping that reads this queue."""
    arn = queue["attributes"].get("QueueArn")
    mappings = [mapping for *_, mapping in lambda_svc._iter_all_esms() if mapping.get("EventSourceArn") == arn]
    return max((float(mapping.get("MaximumBatchingWindowInSeconds", 0)) for mapping in mappings), default=0.0)


def calling_with(access_key: str, credentials: Callable[[Any], dict[str, str]]) -> Callable[[Any], dict[str, str]]:
    """The credentials in a function's environment, with this access key. They stay those of the default account."""
    return lambda config: {**credentials(config), "AWS_ACCESS_KEY_ID": access_key}


if __name__ == "__main__":
    access_key = os.environ["AWS_ACCESS_KEY_ID"]
    lambda_runtime.execution_credentials = calling_with(access_key, lambda_runtime.execution_credentials)
    lambda_svc.execution_credentials = lambda_runtime.execution_credentials
    dynamodb._partiql_insert = streaming(dynamodb._partiql_insert)
    dynamodb._partiql_update = streaming(dynamodb._partiql_update)
    sqs._receive_messages_for_esm = gathering(sqs._receive_messages_for_esm)
    lambda_svc._restore_state = from_the_start(lambda_svc._restore_state)
    sqs.DEFAULT_PORT, sqs._CANONICAL_NETLOC = QUEUE_PORT, f"{sqs.DEFAULT_HOST}:{QUEUE_PORT}"
    dynamodb._parse_partiql = reading_once(dynamodb._parse_partiql)
    _dynamodb_keywords._tokenize = lru_cache(STATEMENTS_KEPT)(_dynamodb_keywords._tokenize)
    ministack.app.app = guarded(ministack.app.app, access_key=access_key, port=int(os.environ["GATEWAY_PORT"]))
    ministack.app.main()
