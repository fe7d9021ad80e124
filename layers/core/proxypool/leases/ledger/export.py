"""The ledger as JSON lines or CSV: one audit record per lease, written as it is read."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from typing import Final, TextIO

from proxypool import clock
from proxypool.leases.ledger.table import LedgerItem

Record = dict[str, str | None]
COLUMNS: Final = (
    "lease_id", "owner", "proxy_id", "target", "granted_at", "expires_at", "ended", "ended_at", "outcome",
)  # fmt: skip
"""`ended` is released, expired or lost (with the cache); `ended` and `ended_at` are null while the lease is live."""


def audit_record(item: LedgerItem) -> Record:
    """The audit record of a ledger row; instants in ISO 8601, None for missing values."""
    values = (
        item.lease_id, item.owner, item.proxy_id, item.target, _instant(item.granted_ms),
        _instant(item.expires_at * 1000), item.ended, _instant(item.ended_ms), item.outcome,
    )  # fmt: skip
    return dict(zip(COLUMNS, values, strict=True))


def write_records(records: Iterable[Record], out: TextIO, *, as_csv: bool = False) -> int:
    """Writes one JSON object per line, or CSV with a header line; returns the number of records."""
    count = 0
    table = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    if as_csv:
        table.writeheader()
    for one in records:
        if as_csv:
            table.writerow(one)
        else:
            out.write(json.dumps(one, separators=(",", ":")) + "\n")
        count += 1
    return count


def _instant(milliseconds: float | None) -> str | None:
    return None if milliseconds is None else clock.iso(clock.from_epoch(milliseconds / 1000))
