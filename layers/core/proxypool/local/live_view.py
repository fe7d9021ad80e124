"""What `make up` shows: the pool coming alive, and, as soon as a proxy can be leased, the lines to copy."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live

from proxypool.local import pool_table
from proxypool.local.emulation.access import credentials
from proxypool.local.process import LocalStackError, no_proxy
from proxypool.local.seed import call
from proxypool.local.stack import Running
from proxypool.proxies.table import ProxyTable

LOOK_SECONDS = 0.3
PAGE_SECONDS = 1.0
PATIENCE_SECONDS = 60
FRESH_FILE = "fresh_start_seconds"
PUBLIC_ECHO = "http://httpbin.org/ip"
DEMO = "127.x.y.z proxies are the demo: a farm on this machine, not the internet."


def follow(stack: Running, console: Console, started: float, tell: Callable[[float | None], None]) -> None:
    """Shows the live table (on a terminal) until Ctrl-C. `started` is a `time.monotonic()`.

    Calls `tell` once: with the seconds to the first lease, or with None when there was none within a minute.
    """
    told, page_at = False, 0.0
    with Live(console=console, auto_refresh=False) if console.is_terminal else nullcontext() as live:
        while True:
            seconds = time.monotonic() - started
            if not told and ((leased := can_lease(stack)) or seconds > PATIENCE_SECONDS):
                told = True
                tell(round(time.monotonic() - started, 1) if leased else None)
            if live and time.monotonic() >= page_at:
                looked = time.monotonic()
                live.update(picture(stack, started), refresh=True)
                page_at = time.monotonic() + max(
                    PAGE_SECONDS, 5 * (time.monotonic() - looked)
                )  # a big pool is slow to read
            time.sleep(LOOK_SECONDS)


def picture(stack: Running, started: float) -> Any:
    """The table of this moment."""
    whose = DEMO if stack.farm else "Your own sources."
    note = f"up for {time.monotonic() - started:.0f} s   {whose}   Ctrl-C stops everything."
    return pool_table.page(list(ProxyTable(stack.outputs["ProxiesTable"]).scan()), note)


def can_lease(stack: Running) -> bool:
    """Whether a proxy can be leased; the lease is given back at once."""
    try:
        lease: dict[str, Any] = call(stack.api_url, "POST", "/leases", {"ttl_seconds": 5})
        call(stack.api_url, "DELETE", f"/leases/{lease['id']}")
    except LocalStackError:  # an empty pool yet
        return False
    return True


def first_lease(seconds: float, data: Path) -> str:
    """The sentence about the first lease; a start with kept state compares itself with the fresh one."""
    fresh = data / FRESH_FILE
    if not fresh.exists():
        fresh.write_text(str(seconds))
        return f"First lease after {seconds} s. The state is kept in {data.parent}: the next start leases from it."
    return f"First lease after {seconds} s, from the state of the last run (a fresh start took {fresh.read_text()} s)."


def no_proxy_yet(stack: Running) -> list[str]:
    """Why nothing can be leased, as far as the sources tell."""
    lines = ["no proxy can be leased yet; the table goes on. The sources:"]
    for source in call(stack.api_url, "GET", "/sources")["sources"]:
        rejected = ", ".join(f"{count} {reason}" for reason, count in source["rejected"].items())
        found = f"{source['valid']} of {source['rows']} rows are proxies" + (f" ({rejected})" if rejected else "")
        lines.append(f"  {source['name'] or source['id']}: {source['last_error'] or found}")
    return lines


def lines(stack: Running, folder: Path, home: Path) -> list[str]:
    """What to copy into another terminal: pairs of a caption and a full command. `home` is the project's folder."""
    program = Path(sys.executable).with_name("proxypool")
    command = shlex.quote(str(program.relative_to(home) if program.is_relative_to(home) else program))
    where = "" if folder == home / ".local" else f" --url {stack.api_url}"
    target = f"{stack.judge_url}ip" if "farm" in stack.children else PUBLIC_ECHO
    typed, body = "-H 'content-type: application/json'", shlex.quote('{"ttl_seconds": 60}')
    pairs = [
        ("a proxy of your own for a minute", f"{command} lease{where}"),
        ("lease, fetch through it, give back", f"{command} fetch {target}{where}"),
        ("what the target sees of a leased proxy", f"curl -s --noproxy '' -x \"$({command} lease{where})\" {target}"),
        ("how the pool is", f"{command} stats{where}"),
        ("a lease without our client", f"curl -s --noproxy '*' {typed} -d {body} {stack.api_url}/leases"),
    ]
    variables = credentials(stack.access_key) | {"AWS_ENDPOINT_URL": stack.endpoint_url} | no_proxy()
    exported = " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items())
    pairs.append(("for the AWS command line and SDKs, until the stack ends", f"export {exported}"))
    text = ["Copy into another terminal:", f"    cd {shlex.quote(str(home))}"]
    for caption, line in pairs:
        text += [f"  {caption}:", f"    {line}"]
    return text
