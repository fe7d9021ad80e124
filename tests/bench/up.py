"""The time from `make up` to the first lease, with a new state folder and with the state of an earlier run."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile

from tests.bench.row import Row

TARGET_SECONDS = 15
COMMAND = [sys.executable, "-m", "proxypool.local.commands"]


def measure() -> list[Row]:
    """Seconds from the command to the first proxy that can be leased, twice."""
    with tempfile.TemporaryDirectory() as folder:
        return [first_lease("up to first lease", folder), first_lease("second up to first lease", folder)]


def first_lease(name: str, folder: str) -> Row:
    """Starts the stack in the background, reads its output, stops it."""
    done = subprocess.run(
        [*COMMAND, "up", "--detach", "--json", "--state", folder], capture_output=True, text=True, timeout=180
    )
    subprocess.run([*COMMAND, "down", "--state", folder], capture_output=True, timeout=60)
    seconds = json.loads(done.stdout)["first_lease_seconds"] if done.returncode == 0 else None
    return Row(name=name, value=seconds, unit="s", target=TARGET_SECONDS, reason=done.stderr.strip()[-200:])
