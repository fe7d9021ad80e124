"""A thousand fast proxies on the local stack: the time from the request to scrape their list until all can be leased.

Emulator, functions, farm and judge share the machine's cores; their CPU is in the reason.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections import defaultdict
from contextlib import closing
from pathlib import Path
from typing import Any

from proxypool.config.settings import Settings
from proxypool.leases.build import build_cache
from proxypool.leases.redis.cache import Cache
from proxypool.local.stack import Plan, RunningStack, run_stack
from proxypool.proxies.proxy import Protocol
from proxypool_client.api import Api
from proxypool_client.local_stack import LocalUrl

from tests.bench.row import Row
from tests.support.servers import ROOT

PROXIES = 1_000
TARGET_SECONDS = 5
WARM_RUNS = 3
LIMIT_SECONDS = 120
LOOK_SECONDS = 0.05
LEASES_PER_CALL = 50


def measure() -> list[Row]:
    """The first list of a stack, with cold functions; then three others, whose median has the target."""
    lists = 1 + WARM_RUNS
    with tempfile.TemporaryDirectory() as folder, run_stack(_plan(Path(folder), lists * PROXIES)) as stack:
        lines = (Path(stack.farm or "").parent / "farm-list.txt").read_text().splitlines()
        pages = [lines[start : start + PROXIES] for start in range(0, len(lines), PROXIES)]
        cold = _seconds(stack, pages[0])
        before = _cpu_seconds(stack)
        warm = [_seconds(stack, page) for page in pages[1:]]
        spent = {name: (seconds - before[name]) / WARM_RUNS for name, seconds in _cpu_seconds(stack).items()}
        leased = _leased_at_once(stack, len(lines))
    parts = ", ".join(f"{name} {seconds:.1f}" for name, seconds in sorted(spent.items()))
    reason = (
        f"{sum(spent.values()):.1f} s of CPU ({parts}) on {os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}"
    )
    return [
        Row(name="1,000 fast proxies leasable, functions cold", value=cold, unit="s"),
        Row(
            name="1,000 fast proxies leasable",
            value=statistics.median(warm),
            unit="s",
            target=TARGET_SECONDS,
            reason=reason,
        ),
        Row(name="of all of them leased at once", value=leased, unit="", target=len(lines), at_least=True),
    ]


def _plan(folder: Path, size: int) -> Plan:
    return Plan(
        root=ROOT,
        folder=folder,
        farm_size=size,
        farm_options=("--mix", "fast=1"),
        any_ports=True,
        parameters={"SchedulesState": "DISABLED"},
        settings={"owner_quota": size},
    )


def _seconds(stack: RunningStack, lines: list[str]) -> float:
    """From the call that starts the scrape until that many more proxies are in the ready sets."""
    body = {"inline": "\n".join(lines), "parser": "lines"}
    source_id = _call(stack, "POST", "/sources", body)["id"]
    cache = build_cache(Settings(redis_url=stack.redis_url))
    wanted = _ready(cache) + len(lines)
    started = time.monotonic()
    _call(stack, "POST", f"/sources/{source_id}/scrape")
    while (ready := _ready(cache)) < wanted:
        if time.monotonic() - started > LIMIT_SECONDS:
            raise RuntimeError(f"{wanted - ready} of {len(lines)} not leasable within {LIMIT_SECONDS} s")
        time.sleep(LOOK_SECONDS)
    return round(time.monotonic() - started, 2)


def _ready(cache: Cache) -> int:
    return int(cache.run("gauge", *Protocol)[0])


def _leased_at_once(stack: RunningStack, number: int) -> int:
    body = {"count": LEASES_PER_CALL, "ttl_seconds": 900}
    return sum(len(_call(stack, "POST", "/leases", body)["leases"]) for _ in range(number // LEASES_PER_CALL))


def _call(stack: RunningStack, method: str, path: str, body: Any = None) -> Any:
    with closing(Api(LocalUrl(stack.api_url))) as api:
        return api.request(method, path, body, seconds=75)


def _cpu_seconds(stack: RunningStack) -> dict[str, float]:
    """CPU seconds of the parts so far, by name; the functions are child processes of the emulator. Empty without /proc."""
    named = {pid: name for name, pid in stack.children.items()}
    spent: defaultdict[str, float] = defaultdict(float)
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields: list[Any] = path.read_text().rpartition(")")[2].split()
        except OSError:  # it ended just now
            continue
        pid, parent = int(path.parent.name), int(fields[1])
        name = named.get(pid) or ("functions" if named.get(parent) == "aws" else "")
        if name:
            spent[name] += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return spent
