"""The checker against the farm: wrong verdicts per kind, CPU beside a raw client, loop lag and memory.

Farm and judge are pinned to one core, each client (a fresh process) to the other; clients take turns, medians count.
The client writes one verdict per proxy; this side alone knows the truth and counts.
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
from pathlib import Path
from typing import Any

from tests.bench.row import Row

REPEATS = 3
ALL_KINDS = "fast=6,slow=2,dead=2,silent=2,leaking=2,tampering=2,password=2,nopassword=2"
START_SECONDS = 20

Result = dict[str, Any]


def measure() -> list[Row]:
    """Wrong verdicts over all kinds at C = 200, then cost over fast proxies alone."""
    with rig(200, ALL_KINDS) as folder:
        rows = wrong_rows(manifest(folder), client("checker", folder))
    with rig(500, "fast=1") as folder:
        runs = [{name: client(name, folder) for name in ("raw", "checker")} for _ in range(REPEATS)]
    return rows + cost_rows(runs)


def wrong_rows(proxies: list[Result], result: Result) -> list[Row]:
    """One row per kind: the proxies of which the verdict differs from the truth."""
    kinds = Counter({proxy["kind"]: 0 for proxy in proxies})
    kinds.update(p["kind"] for p, told in zip(proxies, result["verdicts"], strict=True) if not is_right(p, told))
    return [Row(name=f"wrong: {kind}", value=count, unit="proxies", target=0) for kind, count in sorted(kinds.items())]


def is_right(proxy: Result, told: Result) -> bool:
    """Whether a verdict is the truth: status, exit and anonymity of active ones, the word for a failure that has one."""
    truth = proxy["truth"]
    if truth["status"] == "active":
        anonymity = truth["anonymity"] in (None, told["anonymity"])
        return bool(told["status"] == "active" and told["exit_ip"] == proxy["exit_ip"] and anonymity)
    return bool(told["status"] == "dead" and truth["failure"] in (None, told["failure"]))


def cost_rows(runs: list[dict[str, Result]]) -> list[Row]:
    """Medians of the runs."""

    def middle(field: str, name: str = "checker") -> float:
        return float(statistics.median(run[name][field] for run in runs))

    ratio = middle("cpu_seconds") / middle("cpu_seconds", "raw")
    return [
        Row(name="check CPU per 1,000 (HTTP and HTTPS)", value=round(middle("cpu_seconds") * 2, 3), unit="s"),
        Row(name="check CPU / raw HTTP client", value=round(ratio, 2), unit="ratio"),
        Row(name="loop lag p99", value=round(middle("lag_p99_ms"), 1), unit="ms"),
        Row(name="peak memory", value=round(middle("rss_mb")), unit="MB"),
    ]


@contextmanager
def rig(count: int, mix: str) -> Iterator[Path]:
    """Farm and judge on core 1 while the block runs; yields the folder of farm.json."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "key").write_text("bench key")
        command = [sys.executable, "-m", "proxypool.local.farm", "--state-dir", name, "--key-file", f"{name}/key",
                   "-n", str(count), "--mix", mix]  # fmt: skip
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
    """The command's beginning that keeps it on one core, where the system has taskset and two cores."""
    return ["taskset", "-c", str(core)] if sys.platform == "linux" and (os.cpu_count() or 1) > 1 else []


def manifest(folder: Path) -> list[Result]:
    """The proxies of farm.json, with their truth."""
    proxies: list[Result] = json.loads((folder / "farm.json").read_text())["proxies"]
    return proxies


def client(name: str, folder: Path) -> Result:
    """What a fresh client process printed."""
    done = subprocess.run(
        [*pinned(0), sys.executable, "-m", "tests.bench.client", name, str(folder)],
        capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip
    result: Result = json.loads(done.stdout.splitlines()[-1])
    return result
