"""By which address does the proxy go out, and where does that stand?"""

from __future__ import annotations

from dataclasses import replace

from proxypool.checks.check import Reason
from proxypool.checks.context import Probe, StageFailed
from proxypool.checks.judge import Seen
from proxypool.errors import AddressRefused
from proxypool.network.address import is_address, parse_host, refusal


async def exit_address(probe: Probe) -> None:
    """Notes the exit address of the plain leg."""
    if probe.seen is not None:
        note_exit(probe, probe.seen)


def note_exit(probe: Probe, seen: Seen) -> None:
    """The leg that was asked last counts; others are remembered: some proxies leave by many addresses.

    Raises StageFailed where the exit is our own address, or none of the public network.
    """
    peer = canonical(seen.peer)
    if peer is None or peer in probe.bench.own or refusal(peer, allow_loopback=probe.bench.allow_loopback):
        raise StageFailed(Reason.LOOP)
    probe.exits = [*(address for address in probe.exits if address != peer), peer]
    probe.seen = seen
    if probe.bench.locate is not None:
        found = probe.bench.locate(peer)
        probe.seen = replace(
            probe.seen,
            country=found.country or seen.country, region=found.region or seen.region, asn=found.asn or seen.asn,
        )  # fmt: skip


def canonical(text: str) -> str | None:
    """An address as the pool writes it, an IPv4 one that an IPv6 one maps as itself; None where it is none."""
    try:
        host = parse_host(text)
    except AddressRefused:
        return None
    return host if is_address(host) else None
