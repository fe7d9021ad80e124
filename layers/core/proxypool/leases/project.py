"""index_pool's rule: stream records in, the ready index changed, the sequence number from which to come again out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from proxypool import clock
from proxypool.errors import Unavailable
from proxypool.leases.index import Index
from proxypool.proxies.table import from_image
from proxypool.telemetry import Metric, count, log

StreamRecord = Mapping[str, Any]


def project(records: Sequence[StreamRecord], index: Index) -> str:
    """Applies the records; "" if all are done, else the lowest sequence number, where Redis cannot be reached.

    Applying one twice changes nothing, so the whole batch comes again. One that cannot be read is skipped and counted:
    no retry would make it readable, and those behind it must not wait.
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
        except Exception as error:  # whatever is wrong with it, it is this record's own fault
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
    """How far the index is behind the table: the age of the batch's oldest change, to the stream's whole second."""
    made = [float(record.get("dynamodb", {}).get("ApproximateCreationDateTime") or 0) for record in records]
    if any(made):
        count(Metric.PROJECTION_LAG, max(0, clock.epoch_ms(clock.now()) - round(min(filter(None, made)) * 1000)))


def _sequence(record: StreamRecord) -> str:
    return str(record.get("dynamodb", {}).get("SequenceNumber", "0"))
