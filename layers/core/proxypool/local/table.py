"""What `make up` shows: the pool coming alive, and then the lines to copy."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from proxypool.local.process import LocalStackError
from proxypool.local.seed import call
from proxypool.local.stack import Running
from proxypool.proxies.proxy import Status
from proxypool.proxies.record import ProxyRecord
from proxypool.proxies.table import ProxyTable

EVERY_SECONDS = 1.0
MOST_COLUMNS, MOST_ROWS = 10, 6
STATUSES = tuple(str(status) for status in Status)


def watch(stack: Running, console: Console, started: float, *, seconds: float | None = None) -> None:
    """Shows the live table until Ctrl-C, or for `seconds`. `started` is a `time.monotonic()`."""
    end = None if seconds is None else time.monotonic() + seconds
    with Live(console=console, auto_refresh=False) as live:
        while end is None or time.monotonic() < end:
            live.update(_page(stack, started), refresh=True)
            time.sleep(EVERY_SECONDS)


def wait_for_proxy(stack: Running, *, seconds: float = 60) -> dict[str, Any] | None:
    """The first lease that can be had, given back at once; None when there is none within `seconds`."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            lease: dict[str, Any] = call(stack.api_url, "POST", "/leases", {"ttl_seconds": 5})
            call(stack.api_url, "DELETE", f"/leases/{lease['id']}")
        except LocalStackError:  # an empty pool yet
            time.sleep(0.2)
        else:
            return lease
    return None


def lines(stack: Running) -> list[str]:
    """Full commands to lease, fetch and look, to copy and paste."""
    lease = f"curl -s -X POST {stack.api_url}/leases -H 'content-type: application/json' -d '{{\"ttl_seconds\": 60}}'"
    url = "python3 -c 'import json,sys; print(json.load(sys.stdin)[\"proxy_url\"])'"
    fetch = f"curl -s --noproxy '' -x \"$({lease} | {url})\" {stack.judge_url or 'http://httpbin.org/ip'}"
    return [
        f"lease    {lease}",
        f"fetch    {fetch}",
        f"look     curl -s {stack.api_url}/stats/pool",
        f"         curl -s '{stack.api_url}/proxies?status=active'",
        f"         redis-cli -u {stack.redis_url}",
    ]


def _page(stack: Running, started: float) -> RenderableType:
    records = list(ProxyTable(stack.outputs["ProxiesTable"]).scan())
    active = [record for record in records if record.status is Status.ACTIVE]
    note = "127.x.y.z proxies are the demo: a farm on this machine." if stack.farm else "Your own sources."
    return Group(
        _counts("status", Counter(str(record.status) for record in records), STATUSES),
        _counts("kind", Counter(str(record.kind) for record in active)),
        _counts("country", Counter(record.check.country or "-" for record in active)),
        _counts("anonymity", Counter(str(record.check.anonymity or "-") for record in active)),
        _latest(records),
        Text(f"up for {time.monotonic() - started:.0f} s   {note}   Ctrl-C stops everything."),
    )


def _counts(title: str, counted: Counter[str], names: Iterable[str] = ()) -> Table:
    table = Table(box=None, pad_edge=False)
    columns = [*names, *sorted(set(counted) - set(names))][:MOST_COLUMNS]
    table.add_column(title, style="bold", min_width=10)
    for column in columns:
        table.add_column(column, justify="right")
    table.add_row("", *(str(counted[column]) for column in columns))
    return table


def _latest(records: list[ProxyRecord]) -> Table:
    table = Table(title="last checked", title_justify="left", box=None, pad_edge=False)
    for column in ("proxy", "status", "exit IP", "latency", "why"):
        table.add_column(column)
    checked = [record for record in records if record.last_checked_at]
    for record in sorted(checked, key=lambda record: str(record.last_checked_at), reverse=True)[:MOST_ROWS]:
        check = record.check
        latency = f"{check.latency_ms:.0f} ms" if check.latency_ms else "-"
        address = f"{record.proxy.host}:{record.proxy.port}"
        table.add_row(address, str(record.status), check.exit_ip or "-", latency, check.reason)
    return table
