"""The peak memory of this process alone: on Linux, `ru_maxrss` of a child includes its parent's memory."""

from __future__ import annotations

import re
import resource
import sys
from pathlib import Path


def peak_megabytes() -> float:
    """Peak memory of this process since its start (VmHWM; on other systems ru_maxrss)."""
    status = Path("/proc/self/status")
    if status.exists():
        found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text())
        assert found
        return int(found[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10)
