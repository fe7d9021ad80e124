"""The duration of the whole test suite."""

from __future__ import annotations

import subprocess
import sys
import time

from tests.bench.row import Row

TARGET_SECONDS = 300
MAX_SECONDS = 900


def measure() -> list[Row]:
    """Seconds of the suite with the options of `make test`; no value if it fails."""
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "auto", "--dist", "loadgroup"],
        capture_output=True, text=True, timeout=MAX_SECONDS,
    )  # fmt: skip
    seconds = round(time.monotonic() - started)
    last = (done.stdout.strip().splitlines() or [""])[-1]
    passed = done.returncode == 0
    return [Row(name="test suite", value=seconds if passed else None, unit="s", target=TARGET_SECONDS, reason=last)]
