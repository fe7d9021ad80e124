"""Imports of a cold lease function: CPU and memory over a bare interpreter, and relative to importing redis-py alone."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys

from tests.bench.row import Row

REPEATS = 7
MODULES = {"bare": "sys", "redis": "redis", "lease": "functions.lease.app"}
SCRIPT = """
import json, resource
import {}
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps([used.ru_utime + used.ru_stime, used.ru_maxrss]))
"""


def measure() -> list[Row]:
    """Medians of new processes that take turns."""
    runs = [{name: _cost(module) for name, module in MODULES.items()} for _ in range(REPEATS)]
    cpu = {name: statistics.median(run[name][0] for run in runs) for name in MODULES}
    memory = {name: statistics.median(run[name][1] for run in runs) for name in MODULES}
    lease, redis = cpu["lease"] - cpu["bare"], cpu["redis"] - cpu["bare"]
    megabyte = 1 << 20 if sys.platform == "darwin" else 1 << 10
    return [
        Row(name="lease cold start, over a bare interpreter", value=round(lease * 1000), unit="ms CPU"),
        Row(name="lease cold start / redis-py alone", value=round(lease / redis, 2), unit="ratio", target=8),
        Row(name="lease memory after import", value=round(memory["lease"] / megabyte), unit="MB"),
    ]


def _cost(module: str) -> tuple[float, float]:
    """CPU seconds and peak memory (in the system's unit) of a process that imports `module` and exits."""
    done = subprocess.run([sys.executable, "-c", SCRIPT.format(module)], capture_output=True, text=True, check=True)
    seconds, memory = json.loads(done.stdout)
    return seconds, memory
