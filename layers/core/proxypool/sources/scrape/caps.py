"""Caps on new proxies per host and per network, so that a list cannot use the pool to scan the ports of a victim. Pure.

Rows over a cap are counted by reason and may be stored on another day.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from proxypool.proxies.proxy import Proxy
from proxypool.sources.scrape.digest import Digest, host_hashes, network_prefix


class CapReason(StrEnum):
    """The cap that a valid row exceeded."""

    PER_HOST = "per_host"
    PER_NETWORK = "per_network"
    PER_DAY = "per_day"  # new proxies of the source per day


@dataclass(frozen=True, slots=True)
class Caps:
    """Maximum proxies of one host and of one /24 (or /48) that a source adds per day."""

    per_host: int
    per_network: int


def apply_host_and_network_caps(
    proxies: Sequence[Proxy], digest: Digest, caps: Caps | None
) -> tuple[list[Proxy], Counter[str]]:
    """Returns the proxies within the caps, in order, and the number over each cap. Proxies in the digest always pass.

    The digest counts towards the caps, so that changing ports with every scrape does not evade them. None: no caps.
    """
    if caps is None:
        return list(proxies), Counter()
    hosts = Counter(entry.host for entry in digest.entries.values())
    networks = Counter(entry.network for entry in digest.entries.values())
    passed: list[Proxy] = []
    held_back: Counter[str] = Counter()
    for proxy in proxies:
        if not digest.contains(proxy):
            host, network = host_hashes(proxy)
            if hosts[host] >= caps.per_host:
                held_back[CapReason.PER_HOST] += 1
                continue
            if networks[network] >= caps.per_network:
                held_back[CapReason.PER_NETWORK] += 1
                continue
            hosts[host] += 1
            networks[network] += 1
        passed.append(proxy)
    return passed, held_back


def largest_network(proxies: Iterable[Proxy]) -> int:
    """The number of proxies in the largest network."""
    counts = Counter(network_prefix(proxy.host) for proxy in proxies)
    return max(counts.values(), default=0)
