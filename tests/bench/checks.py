"""The checker against the farm: wrong verdicts per kind, and its costs relative to the floors in the same run.

Farm and judge are pinned to one core, each client (a new process) to the other; clients take turns, and medians are compared.
The client writes one verdict per check; this process compares them with the actual properties.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.bench.row import Row

REPEATS = 5
FAST = 500  # proxies of the all-fast farm
HIDDEN = ("misfiled", "judge-aware")  # not detectable by the plain stages
REALISTIC = "fast=5,slow=15,dead=40,silent=40"
REALISTIC_SECONDS = 5.0
KINDS_SECONDS = 20.0  # per stage, as in production: the farm itself needs time for 800 at once
START_SECONDS = 20
MORE_THAN_RAW = "raw reads a response; a plain check also verifies its signature and evaluates it"

Result = dict[str, Any]


def measure() -> list[Row]:
    """Targets 1 to 5 of docs/performance.md."""
    with rig(FAST, "fast=1") as folder:
        rows = cpu_rows(folder)
    for count in (200, 800):
        with rig(count, "all") as folder:
            rows += kinds_rows(folder, count)
    with rig(FAST, REALISTIC, slow="1,3") as folder:
        return [*rows, makespan_row(folder)]


def cpu_rows(folder: Path) -> list[Row]:
    """Targets 1 and 2: CPU per check relative to the floors, all proxies fast."""
    names = {"raw": 3, "plain": 3, "streams_tls": 1, "secure": 1, "checker": 1}
    runs = [{name: client(name, folder, passes=passes) for name, passes in names.items()} for _ in range(REPEATS)]
    cpu = {name: statistics.median(run[name]["cpu_ms"] for run in runs) for name in names}
    rate = {name: statistics.median(FAST * passes / run[name]["wall_seconds"] for run in runs)
            for name, passes in names.items()}  # fmt: skip
    rows = [Row(name=f"{name}: CPU of one check", value=round(cpu[name], 3), unit="ms") for name in names]
    rows += [Row(name=f"{name}: checks a second", value=round(rate[name]), unit="/s") for name in names]
    plain, secure = cpu["plain"] / cpu["raw"], cpu["secure"] / cpu["streams_tls"]
    return [
        *rows,
        missed(Row(name="1: plain check / raw", value=round(plain, 2), unit="ratio", target=1.0, reason=MORE_THAN_RAW)),
        missed(Row(name="2: HTTPS check / streams_tls", value=round(secure, 2), unit="ratio", target=1.3)),
    ]


def kinds_rows(folder: Path, count: int) -> list[Row]:
    """Target 3 for `count` concurrent proxies, and target 5 at 800; also the verdicts of all stages."""
    proxies = manifest(folder)
    plain = client("plain", folder, at_once=count)
    whole = client("checker", folder, at_once=count)
    rows = wrong_rows(f"3: wrong at C = {count}", proxies, plain["verdicts"], full=False)
    rows += wrong_rows(f"3: wrong, all stages, at C = {count}", proxies, whole["verdicts"], full=True)
    lag = Row(name=f"3: loop lag p99 at C = {count}", value=round(plain["lag_p99_ms"], 1), unit="ms", target=50)
    memory = Row(name=f"5: peak memory at C = {count}", value=round(plain["rss_mb"]), unit="MB", target=80)
    whole_costs = [
        Row(name=f"loop lag p99, all stages, at C = {count}", value=round(whole["lag_p99_ms"], 1), unit="ms"),
        Row(name=f"peak memory, all stages, at C = {count}", value=round(whole["rss_mb"]), unit="MB"),
    ]
    return [*rows, missed(lag), missed(memory), *whole_costs]


def makespan_row(folder: Path) -> Row:
    """Target 4: the time for a realistic mix, all at once, relative to that of its slowest proxy."""
    proxies = manifest(folder)
    result = client("plain", folder, at_once=len(proxies), seconds=REALISTIC_SECONDS)
    slots = sum(REALISTIC_SECONDS if p["kind"] == "silent" else p["delay_seconds"] for p in proxies)
    bound = max(REALISTIC_SECONDS, slots / len(proxies))
    ratio = round(result["wall_seconds"] / bound, 3)
    return missed(Row(name="4: makespan of a realistic mix / its bound", value=ratio, unit="ratio", target=1.1))


def missed(row: Row) -> Row:
    """The row; if it misses its target, with the load average as a reason: CPU, lag and wall time grow with it."""
    if row.holds:
        return row
    reason = f"{row.reason}; " if row.reason else ""
    return replace(
        row, reason=f"{reason}load average {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores while it was measured"
    )


def wrong_rows(name: str, proxies: list[Result], verdicts: list[Result], *, full: bool) -> list[Row]:
    """One row per kind: the number of proxies with a wrong verdict."""
    kinds = Counter({proxy["kind"]: 0 for proxy in proxies if full or proxy["kind"] not in HIDDEN})
    examples: dict[str, str] = {}
    for proxy, verdict in zip(proxies, verdicts, strict=True):
        if proxy["kind"] in kinds and not is_right(proxy["truth"], verdict, full=full):
            kinds[proxy["kind"]] += 1
            examples[proxy["kind"]] = f"{verdict['status']}, {verdict.get('reason')}"
    return [
        missed(Row(name=f"{name}: {kind}", value=count, unit="proxies", target=0, reason=examples.get(kind, "")))
        for kind, count in sorted(kinds.items())
    ]


def is_right(truth: Result, verdict: Result, *, full: bool) -> bool:
    """True if a verdict equals the truth, as far as the enabled stages can detect it."""
    if truth["status"] == "dead" or truth["tampered"]:
        return all(verdict[name] == truth[name] for name in ("status", "reason", "tampered"))
    plain = verdict["exit_ip"] in truth["exit_ips"] and verdict["anonymity"] == truth["anonymity"]
    secure = not full or all(verdict[name] == truth[name] for name in ("https", "reason"))
    return bool(verdict["status"] == "active" and not verdict["tampered"] and plain and secure)


@contextmanager
def rig(count: int, mix: str, *, slow: str = "0.3,1.2") -> Iterator[Path]:
    """Farm and judge on core 1 while the block runs; yields the folder of farm.json."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "key").write_text("bench key")
        command = [sys.executable, "-m", "proxypool.local.farm.server", "--state-dir", name, "--key-file", f"{name}/key",
                   "-n", str(count), "--mix", mix, "--slow", slow]  # fmt: skip
        farm = subprocess.Popen([*pinned(1), *command])
        try:
            end = time.monotonic() + START_SECONDS
            while not (folder / "farm.json").exists():
                assert farm.poll() is None and time.monotonic() < end, "the farm did not start"  # noqa: PT018
                time.sleep(0.05)
            yield folder
        finally:
            farm.terminate()
            farm.wait(10)


def pinned(core: int) -> list[str]:
    """The prefix of a command that pins it to one core, if the system has taskset and two cores."""
    return ["taskset", "-c", str(core)] if sys.platform == "linux" and (os.cpu_count() or 1) > 1 else []


def manifest(folder: Path) -> list[Result]:
    """The proxies of farm.json, with their truth."""
    proxies: list[Result] = json.loads((folder / "farm.json").read_text())["proxies"]
    return proxies


def client(name: str, folder: Path, *, at_once: int = 200, passes: int = 1, seconds: float = KINDS_SECONDS) -> Result:
    """The output of a new client process."""
    options = ["--at-once", str(at_once), "--passes", str(passes), "--seconds", str(seconds)]
    done = subprocess.run(
        [*pinned(0), sys.executable, "-m", "tests.bench.client", name, str(folder), *options],
        capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip
    result: Result = json.loads(done.stdout.splitlines()[-1])
    return result
