"""What a newcomer waits for: `make up` to the first lease, the test suite; and what a cold lease function imports."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time

from tests.bench.row import Row

REPEATS = 5
IMPORT_SCRIPT = "import time; t = time.process_time(); import {}; print(time.process_time() - t)"


def up() -> list[Row]:
    """Seconds from the command to the first proxy that can be leased, on a fresh state folder."""
    command = [sys.executable, "-m", "proxypool.local.commands"]
    with tempfile.TemporaryDirectory() as folder:
        started = time.monotonic()
        done = subprocess.run(
            [*command, "up", "--detach", "--json", "--state", folder], capture_output=True, text=True, timeout=180
        )
        seconds = time.monotonic() - started
        subprocess.run([*command, "down", "--state", folder], capture_output=True, timeout=60)
    ready = json.loads(done.stdout)["ready_seconds"] if done.returncode == 0 else None
    return [
        Row(name="up to first lease", value=round(seconds, 1) if ready else None, unit="s", target=15,
            reason="" if ready else done.stderr.strip()[-200:])
    ]  # fmt: skip


def suite() -> list[Row]:
    """Seconds of the whole test suite; a suite that fails has not been measured."""
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "2"], capture_output=True, text=True, timeout=900
    )
    seconds, passed = time.monotonic() - started, done.returncode == 0
    last = (done.stdout.strip().splitlines() or [""])[-1]
    return [
        Row(name="test suite", value=round(seconds) if passed else None, unit="s", target=300,
            reason="" if passed else last)
    ]  # fmt: skip


def lease_import() -> list[Row]:
    """CPU to import what the lease function imports, beside redis-py alone."""
    lease, redis = (_import_seconds(name) for name in ("functions.lease.app", "redis"))
    return [
        Row(name="lease import", value=round(lease * 1000), unit="ms CPU"),
        Row(name="lease import / redis-py alone", value=round(lease / redis, 2), unit="ratio", target=1.3),
    ]


def _import_seconds(module: str) -> float:
    script = [sys.executable, "-c", IMPORT_SCRIPT.format(module)]
    return statistics.median(
        float(subprocess.run(script, capture_output=True, text=True, check=True).stdout) for _ in range(REPEATS)
    )
