"""Does the proxy take a connection?"""

from __future__ import annotations

from proxypool.checks.context import Probe
from proxypool.checks.way import connect


async def reachable(probe: Probe) -> None:
    """Leaves an open connection to the vetted address."""
    await connect(probe)
