"""Does the proxy take a connection?"""

from __future__ import annotations

from proxypool.checks.check import Reason
from proxypool.checks.context import Probe, StageFailed
from proxypool.errors import AddressRefused
from proxypool.network import guard
from proxypool.network.deadline import Deadline
from proxypool.network.tunnel import Wire


async def reachable(probe: Probe) -> None:
    """Leaves an open connection to the vetted address."""
    proxy, bench = probe.proxy, probe.bench
    try:
        async with Deadline(bench.connect_seconds):
            if probe.address is None:
                probe.address = await guard.resolve(proxy.host, proxy.port, allow_loopback=bench.allow_loopback)
            probe.wire = await Wire.open(*probe.address)
    except AddressRefused as error:
        raise StageFailed(Reason.ADDRESS_REFUSED) from error
