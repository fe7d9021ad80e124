"""How much of one host and of one network a list may make us check: a list that names a victim's ports does not get them.

Pure. What is held back is counted by its reason, and may come another day.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from proxypool.proxies.proxy import Proxy
from proxypool.sources.scrape.digest import Seen, network_of, place


class Held(StrEnum):
    """Why a good row was not stored this time."""

    PER_HOST = "per_host"
    PER_NETWORK = "per_network"
    PER_DAY = "per_day"  # the source's bound of new proxies a day


@dataclass(frozen=True, slots=True)
class Caps:
    """The most proxies of one host and of one /24 (or /48) that a source brings in a day; names have a host only."""

    per_host: int
    per_network: int


def within(proxies: Sequence[Proxy], seen: Seen, caps: Caps | None) -> tuple[list[Proxy], Counter[str]]:
    """The proxies that the caps allow, in order, and how many are held back by which; known ones always pass.

    `seen` counts too: a list that changes its ports with every scrape gains nothing. None: no caps.
    """
    if caps is None:
        return list(proxies), Counter()
    hosts = Counter(entry.host for entry in seen.entries.values())
    networks = Counter(entry.network for entry in seen.entries.values())
    passed: list[Proxy] = []
    held: Counter[str] = Counter()
    for proxy in proxies:
        if not seen.holds(proxy):
            host, network = place(proxy)
            if hosts[host] >= caps.per_host:
                held[Held.PER_HOST] += 1
                continue
            if networks[network] >= caps.per_network:
                held[Held.PER_NETWORK] += 1
                continue
            hosts[host] += 1
            networks[network] += 1
        passed.append(proxy)
    return passed, held


def largest_network(proxies: Iterable[Proxy]) -> int:
    """How many of the proxies stand in the network that holds the most."""
    counts = Counter(network_of(proxy.host) for proxy in proxies)
    return max(counts.values(), default=0)
