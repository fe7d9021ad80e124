"""From a list to leases: a thousand fast proxies on the local stack, from the call for their scrape until all can be leased.

The emulator, its functions, its tables, the farm and the judge have the machine's cores between them, and are measured along.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from proxypool.leases.build import cache_of
from proxypool.leases.cache import Cache
from proxypool.local.seed import call
from proxypool.local.stack import Plan, Running, running
from proxypool.proxies.proxy import Protocol
from proxypool.settings import Settings

from tests.bench.row import Row
from tests.support.servers import ROOT

PROXIES = 1_000
WARM = 50  # a first list: the functions have run once, as on AWS in a deployment of some minutes
TARGET_SECONDS = 5
REPEATS = 3
LIMIT_SECONDS = 120
LOOK_SECONDS = 0.05
LEASES_PER_CALL = 50


def measure() -> list[Row]:
    """The seconds of a cold stack's first list, then the median of three lists on a warm one, with where its time went."""
    with tempfile.TemporaryDirectory() as folder, running(_plan(Path(folder) / "cold", PROXIES)) as stack:
        lines = _lines(stack)
        cold = _seconds(stack, "cold", lines)
    with (
        tempfile.TemporaryDirectory() as folder,
        running(_plan(Path(folder) / "warm", WARM + REPEATS * PROXIES)) as stack,
    ):
        lines = _lines(stack)
        _seconds(stack, "warm", lines[:WARM])
        runs = [
            _seconds(stack, f"list-{n}", lines[WARM + n * PROXIES : WARM + (n + 1) * PROXIES]) for n in range(REPEATS)
        ]
        leased = _lease_all(stack)
    print(cold, runs, leased, os.getloadavg())
    return [
        Row(name="1,000 fast proxies leasable, functions cold", value=cold, unit="s"),
        Row(name="1,000 fast proxies leasable", value=statistics.median(runs), unit="s", target=TARGET_SECONDS),
    ]


def _plan(folder: Path, size: int) -> Plan:
    return Plan(
        root=ROOT, folder=folder, farm_size=size, farm_options=("--mix", "fast=1"), own_ports=True,
        parameters={"SchedulesState": "DISABLED", "OwnerQuota": "100000"},
    )  # fmt: skip


def _lines(stack: Running) -> list[str]:
    return (Path(stack.farm or "").parent / "farm-list.txt").read_text().splitlines()


def _seconds(stack: Running, name: str, lines: list[str]) -> float:
    """From the call that asks for the scrape until so many more proxies stand in the ready sets."""
    call(stack.api_url, "POST", "/sources", {"id": name, "inline": "\n".join(lines), "parser": "lines"})
    cache = cache_of(Settings(redis_url=stack.redis_url))
    wanted = _ready(cache) + len(lines)
    started = time.monotonic()
    call(stack.api_url, "POST", f"/sources/{name}/scrape")
    while (ready := _ready(cache)) < wanted:
        if time.monotonic() - started > LIMIT_SECONDS:
            raise AssertionError(f"{wanted - ready} of {len(lines)} not ready within {LIMIT_SECONDS} s")
        time.sleep(LOOK_SECONDS)
    return round(time.monotonic() - started, 2)


def _ready(cache: Cache) -> int:
    return int(cache.run("gauge", *Protocol)[0])


def _lease_all(stack: Running) -> int:
    """How many of all can really be leased at once."""
    leased, body = 0, {"count": LEASES_PER_CALL, "at_least": LEASES_PER_CALL, "ttl_seconds": 900}
    for _ in range((WARM + REPEATS * PROXIES) // LEASES_PER_CALL):
        answer: dict[str, Any] = call(stack.api_url, "POST", "/leases", body)
        leased += len(answer["leases"])
    return leased
