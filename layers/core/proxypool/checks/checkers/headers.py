"""What does a request through the proxy show of us?"""

from __future__ import annotations

from proxypool.checks.anonymity import anonymity
from proxypool.checks.context import Probe


async def headers(probe: Probe) -> None:
    """Finds the anonymity: of what the judge saw of the plain request, less what it sees of a direct one."""
    if probe.seen is not None:
        probe.anonymity = anonymity(probe.seen.headers, own=probe.bench.own, direct=probe.judge.direct)
