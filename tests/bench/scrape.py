"""From a list to rows and messages, on the emulated AWS: the costs of new lines, and of a second scrape.

The times include round trips to the emulator instead of DynamoDB.
"""

from __future__ import annotations

import statistics
import time

from proxypool import aws

from tests.bench.row import Row
from tests.support import servers
from tests.support.scrape import Calls, Pool, addresses, counted_calls

LINES = 50_000
NEW_LINES = 1_000
REPEATS = 3
PARTS = {
    "BatchGetItem": "looking up",
    "BatchExecuteStatement": "writing rows",
    "SendMessageBatch": "sending messages",
}


def measure() -> list[Row]:
    """1,000 new lines by operation; then 50,000 lines, and the same lines again in another order."""
    with servers.emulator():
        aws.client.cache_clear()
        pool = Pool()
        pool.add("warm", inline=addresses(100, start=1_000_000))
        pool.scrape("warm")
        runs = [_new_lines(pool, number) for number in range(REPEATS)]
        rows = _new_rows(runs) + _second_scrape(pool)
    aws.client.cache_clear()
    return rows


def _new_lines(pool: Pool, number: int) -> tuple[float, Calls]:
    source_id = pool.add(f"new-{number}", inline=addresses(NEW_LINES, start=2_000_000 + number * NEW_LINES))
    started = time.perf_counter()
    with counted_calls() as calls:
        assert pool.scrape(source_id).new == NEW_LINES
    return time.perf_counter() - started, calls


def _new_rows(runs: list[tuple[float, Calls]]) -> list[Row]:
    """The median of the total and of each operation; the rest is the scraper's own work: parsing, packing, the digest."""
    rows = [
        Row(name="scrape of 1,000 new lines to their messages", value=_median([all_ for all_, _ in runs]), unit="s")
    ]
    for operation, name in PARTS.items():
        rows.append(Row(name=f"of it {name}", value=_median([c.seconds[operation] for _, c in runs]), unit="s"))
    others = [sum(c.seconds[name] for name in c.seconds if name not in PARTS) for _, c in runs]
    own = [all_ - sum(c.seconds.values()) for all_, c in runs]
    rows.append(Row(name="of it the source's row, its digest, the event", value=_median(others), unit="s"))
    return [*rows, Row(name="of it our own work", value=_median(own), unit="s")]


def _second_scrape(pool: Pool) -> list[Row]:
    lines = addresses(LINES)
    aws.client("s3").put_object(Bucket=pool.settings.bodies_bucket, Key="uploads/long", Body=lines.encode())
    pool.add("long", s3="uploads/long")
    first = pool.scrape_all("long")
    assert sum(run.new for run in first) == LINES
    reordered = "\n".join(reversed(lines.split()))
    aws.client("s3").put_object(Bucket=pool.settings.bodies_bucket, Key="uploads/long", Body=reordered.encode())
    started = time.perf_counter()
    with counted_calls() as calls:
        second = pool.scrape_all("long")
    seconds = time.perf_counter() - started
    assert sum(run.new + run.updated for run in second) == 0
    return [
        Row(name="messages for 50,000 new lines", value=len(first), unit="runs"),
        Row(name="second scrape of 50,000 lines: item writes", value=calls.written, unit="items", target=499),
        Row(name="second scrape of 50,000 lines: item reads", value=calls.read, unit="items"),
        Row(name="second scrape of 50,000 lines", value=round(seconds, 2), unit="s"),
    ]


def _median(values: list[float]) -> float:
    return round(statistics.median(values), 3)
