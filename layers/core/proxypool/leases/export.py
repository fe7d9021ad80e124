"""The ledger as text: one audit record per lease, written as it is read."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from typing import Final, TextIO

from proxypool import clock
from proxypool.leases.ledger import LedgerItem

Record = dict[str, str | None]
COLUMNS: Final = (
    "lease_id", "owner", "proxy_id", "target", "granted_at", "expires_at", "ended", "ended_at", "outcome",
)  # fmt: skip
"""Of a record: `ended` is released, expired or lost (with the cache), and like `ended_at` null while the lease lives."""


def record(item: LedgerItem) -> Record:
    """A ledger row as its audit record; instants in ISO 8601, null for what there is not."""
    values = (
        item.lease_id, item.owner, item.proxy_id, item.target, _instant(item.granted_ms),
        _instant(item.expires_at * 1000), item.ended, _instant(item.ended_ms), item.outcome,
    )  # fmt: skip
    return dict(zip(COLUMNS, values, strict=True))


def write(records: Iterable[Record], out: TextIO, *, as_csv: bool = False) -> int:
    """Writes a JSON object a line, or CSV with a line of names; returns how many records."""
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
