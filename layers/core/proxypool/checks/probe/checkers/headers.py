"""Stage `anonymity`: the headers that the proxy adds to a request."""

from __future__ import annotations

from proxypool.checks.probe.context import Probe
from proxypool.checks.rules.anonymity import anonymity_level


async def check_anonymity(probe: Probe) -> None:
    """Sets the anonymity level from the judge's view of the plain request, without the headers of a direct request."""
    if probe.observation is not None:
        probe.anonymity = anonymity_level(
            probe.observation.headers,
            own_addresses=probe.context.own_addresses,
            direct_headers=probe.judge.direct_headers,
        )
