"""What `make up` shows: a live table of the pool, and, as soon as a proxy can be leased, commands to copy."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from proxypool_client.api import Api
from proxypool_client.errors import PoolError
from rich.console import Console
from rich.live import Live

from proxypool.local import pool_table
from proxypool.local.emulation.access import credentials
from proxypool.local.process import no_proxy
from proxypool.local.stack import RunningStack
from proxypool.proxies.table import ProxyTable

POLL_SECONDS = 0.3
REFRESH_SECONDS = 1.0
REFRESH_FACTOR = (
    5  # between two refreshes: at least this many times the duration of one, since a big pool is slow to read
)
FIRST_LEASE_SECONDS = 60
CALL_SECONDS = 75  # 30 s of them for the response: the function's first call loads its code
FRESH_FILE = "fresh_start_seconds"
PUBLIC_ECHO = "http://httpbin.org/ip"
DEMO_NOTE = "127.x.y.z proxies are the demo: a farm on this machine, not the internet."


def wait_for_lease(stack: RunningStack, api: Api, console: Console, started: float) -> float | None:
    """Shows the live table until a proxy can be leased; returns the seconds since `started` (a `time.monotonic()`).

    None if there is no proxy after a minute.
    """
    for _ in _live(stack, console, started, transient=True):
        if can_lease(api):
            return round(time.monotonic() - started, 1)
        if time.monotonic() - started > FIRST_LEASE_SECONDS:
            break
    return None


def follow(stack: RunningStack, console: Console, started: float) -> None:
    """Shows the live table until Ctrl-C."""
    for _ in _live(stack, console, started):
        pass


def _live(stack: RunningStack, console: Console, started: float, *, transient: bool = False) -> Iterator[None]:
    """Updates the table (on a terminal only); yields between two updates, several times a second."""
    next_refresh = 0.0
    with (
        Live(console=console, auto_refresh=False, transient=transient) if console.is_terminal else nullcontext() as live
    ):
        while True:
            yield
            if live and time.monotonic() >= next_refresh:
                before = time.monotonic()
                live.update(status_view(stack, started), refresh=True)
                next_refresh = time.monotonic() + max(REFRESH_SECONDS, REFRESH_FACTOR * (time.monotonic() - before))
            time.sleep(POLL_SECONDS)


def status_view(stack: RunningStack, started: float) -> Any:
    """The table as of now."""
    source_note = DEMO_NOTE if stack.farm else "Your own sources."
    note = f"up for {time.monotonic() - started:.0f} s   {source_note}   Ctrl-C stops everything."
    return pool_table.render(list(ProxyTable(stack.outputs["ProxiesTable"]).scan()), note)


def can_lease(api: Api) -> bool:
    """Whether a proxy can be leased; the lease is released at once."""
    try:
        lease: dict[str, Any] = api.request("POST", "/leases", {"ttl_seconds": 5}, seconds=CALL_SECONDS)
        api.request("DELETE", f"/leases/{lease['id']}")
    except PoolError:  # no proxy is ready yet
        return False
    return True


def first_lease(seconds: float, data: Path) -> str:
    """The message about the first lease; a start with kept state is compared with the fresh one."""
    fresh = data / FRESH_FILE
    if not fresh.exists():
        fresh.write_text(str(seconds))
        return f"First lease after {seconds} s. The state is kept in {data.parent}: the next start uses it."
    return (
        f"First lease after {seconds} s, with the state of the previous run (a fresh start took {fresh.read_text()} s)."
    )


def no_proxy_yet(api: Api) -> list[str]:
    """Why no proxy can be leased, as far as the sources show."""
    lines = ["No proxy can be leased yet; the table is still updated. The sources:"]
    for source in api.request("GET", "/sources", seconds=CALL_SECONDS)["sources"]:
        rejected = ", ".join(f"{count} {reason}" for reason, count in source["rejected"].items())
        rows = f"{source['valid']} of {source['rows']} rows are proxies" + (f" ({rejected})" if rejected else "")
        lines.append(f"  {source['name'] or source['id']}: {source['last_error'] or rows}")
    return lines


def commands_to_copy(stack: RunningStack, folder: Path, root: Path) -> list[str]:
    """Commands for another terminal, each after its caption. `folder` is the state folder, `root` that of the project."""
    program = Path(sys.executable).with_name("proxypool")
    command = shlex.quote(str(program.relative_to(root) if program.is_relative_to(root) else program))
    url = "" if folder == root / ".local" else f" --url {stack.api_url}"
    target = f"{stack.judge_url}ip" if "farm" in stack.children else PUBLIC_ECHO
    json_type, body = "-H 'content-type: application/json'", shlex.quote('{"ttl_seconds": 60}')
    variables = credentials(stack.access_key) | {"AWS_ENDPOINT_URL": stack.endpoint_url} | no_proxy()
    exported = " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items())
    pairs = [
        ("lease a proxy for a minute", f"{command} lease{url}"),
        ("lease, fetch a page through the proxy, release", f"{command} fetch {target}{url}"),
        ("show which address a target sees", f"curl -s --noproxy '' -x \"$({command} lease{url})\" {target}"),
        ("show the state of the pool", f"{command} stats{url}"),
        ("lease without the client", f"curl -s --noproxy '*' {json_type} -d {body} {stack.api_url}/leases"),
        ("use the AWS command line and SDKs while the stack runs", f"export {exported}"),
    ]
    text = ["Copy into another terminal:", f"    cd {shlex.quote(str(root))}"]
    for caption, line in pairs:
        text += [f"  {caption}:", f"    {line}"]
    return text
