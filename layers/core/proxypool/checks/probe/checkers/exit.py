"""Stage `exit`: the proxy's exit IP and its location."""

from __future__ import annotations

from dataclasses import replace

from proxypool.checks.check import Reason
from proxypool.checks.judge.answer import Observation
from proxypool.checks.probe.context import Probe, StageFailed
from proxypool.errors import AddressRefused
from proxypool.network.address import is_address, parse_host, refusal_reason


async def check_exit(probe: Probe) -> None:
    """Records the exit IP of the plain HTTP request."""
    if probe.observation is not None:
        record_exit(probe, probe.observation)


def record_exit(probe: Probe, observation: Observation) -> None:
    """Makes the observed peer the current exit IP and retains earlier ones: some proxies rotate their exits.

    Raises StageFailed if the exit IP is our own address or not public.
    """
    context = probe.context
    peer = canonical_address(observation.peer)
    if peer is None or peer in context.own_addresses or refusal_reason(peer, allow_loopback=context.allow_loopback):
        raise StageFailed(Reason.LOOP)
    probe.exits = [*(address for address in probe.exits if address != peer), peer]
    probe.observation = observation
    if context.locate is not None:
        location = context.locate(peer)
        probe.observation = replace(
            observation,
            country=location.country or observation.country, region=location.region or observation.region,
            asn=location.asn or observation.asn,
        )  # fmt: skip


def canonical_address(text: str) -> str | None:
    """An IP address in the pool's spelling (IPv4-mapped IPv6 becomes IPv4); None if the text is not an address."""
    try:
        host = parse_host(text)
    except AddressRefused:
        return None
    return host if is_address(host) else None
