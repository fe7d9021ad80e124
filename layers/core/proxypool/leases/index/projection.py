"""Applies stream records of the proxies table to the ready index, for index_pool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from proxypool import clock
from proxypool.errors import Unavailable
from proxypool.leases.index.ready import Index
from proxypool.proxies.table import from_image
from proxypool.telemetry import Metric, count, log

StreamRecord = Mapping[str, Any]


def project(records: Sequence[StreamRecord], index: Index) -> str:
    """Applies the records. Returns "", or the lowest sequence number if Redis is unavailable and the batch must be retried.

    Applying a record twice changes nothing. A record that cannot be parsed is skipped and counted, since a retry cannot help
    and the ones after it must not wait.
    """
    upserts, removals = [], []
    for record in records:
        try:
            image = record["dynamodb"]
            if record["eventName"] == "REMOVE":
                old = image["OldImage"]
                removals.append((str(old["proxy_id"]["S"]), int(old["version"]["N"])))
            else:
                upserts.append(from_image(image["NewImage"]))
        except Exception as error:  # of any kind: the other records must not be lost with it
            count(Metric.RECORDS_SKIPPED)
            log.error("record skipped", error=type(error).__name__, sequence=_sequence(record))
    try:
        newer = index.upsert(upserts) + index.remove(removals)
    except Unavailable as error:
        log.warning("index unreachable", error=error.detail, retrying=True, count=len(records))
        return min((_sequence(record) for record in records), key=int)
    count(Metric.PROXIES_INDEXED, newer)
    _count_lag(records)
    return ""


def _count_lag(records: Sequence[StreamRecord]) -> None:
    """Counts the lag of the index behind the table: the age of the batch's oldest change, with the stream's 1 s resolution."""
    made = [float(record.get("dynamodb", {}).get("ApproximateCreationDateTime") or 0) for record in records]
    if any(made):
        count(Metric.INDEX_LAG, max(0, clock.epoch_ms(clock.now()) - round(min(filter(None, made)) * 1000)))


def _sequence(record: StreamRecord) -> str:
    return str(record.get("dynamodb", {}).get("SequenceNumber", "0"))
