"""Stage `reachable`: a TCP connection to the proxy."""

from __future__ import annotations

from proxypool.checks.probe.context import Probe
from proxypool.checks.probe.request import connect


async def check_reachable(probe: Probe) -> None:
    """Opens a connection to the proxy's vetted address and leaves it open in the probe."""
    await connect(probe)
