"""The pool as a table in the terminal: counts of proxies, and the results of the latest checks. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from proxypool.leases.index.ready import is_ready
from proxypool.proxies.proxy import Kind, Status
from proxypool.proxies.record import ProxyRecord

MAX_COLUMNS, MAX_ROWS = 10, 6
READY = "ready"
STATUSES = (READY, *(str(status) for status in Status))


def render(records: Sequence[ProxyRecord], note: str) -> RenderableType:
    """The tables, with `note` below them. `ready` proxies can be leased if their last check is recent enough."""
    ready = [record for record in records if is_ready(record)]
    status = Counter(str(record.status) for record in records) + Counter({READY: len(ready)})
    groups = {
        "kind": Counter(str(record.kind) for record in ready if record.kind is not Kind.UNKNOWN),
        "country": Counter(record.check.country or "-" for record in ready),
        "anonymity": Counter(str(record.check.anonymity or "-") for record in ready),
    }
    counts = [_counts(title, counted) for title, counted in groups.items() if counted]
    latest = [_latest(records)] if any(record.last_checked_at for record in records) else []
    return Group(_counts("status", status, STATUSES), *counts, *latest, Text(note))


def _counts(title: str, counted: Counter[str], names: Iterable[str] = ()) -> Table:
    table = Table(box=None, pad_edge=False)
    columns = [*names, *sorted(set(counted) - set(names))][:MAX_COLUMNS]
    table.add_column(title, style="bold", min_width=10)
    for column in columns:
        table.add_column(column, justify="right")
    table.add_row("", *(str(counted[column]) for column in columns))
    return table


def _latest(records: Sequence[ProxyRecord]) -> Table:
    table = Table(title="last checked", title_justify="left", box=None, pad_edge=False)
    for column in ("proxy", "status", "exit IP", "latency", "verdict"):
        table.add_column(column)
    checked = [record for record in records if record.last_checked_at]
    for record in sorted(checked, key=lambda record: str(record.last_checked_at), reverse=True)[:MAX_ROWS]:
        check = record.check
        latency = f"{check.latency_ms:.0f} ms" if check.latency_ms else "-"
        address = f"{record.proxy.host}:{record.proxy.port}"
        table.add_row(address, str(record.status), check.exit_ip or "-", latency, verdict(record))
    return table


def verdict(record: ProxyRecord) -> str:
    """The reason of the last check if it failed, else whether the judge's response was signed."""
    if record.check.reason:
        return str(record.check.reason)
    return "signed" if record.check.signed else "unsigned"
