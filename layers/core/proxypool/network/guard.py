"""Resolves a host name to the one address to connect to: resolved once, all results vetted, so DNS rebinding has no
effect.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Final

from proxypool.errors import AddressRefused
from proxypool.network.address import (
    FORBIDDEN_NETWORKS,
    Networks,
    Refusal,
    is_address,
    is_own_endpoint,
    parse_endpoint,
    refusal_reason,
)
from proxypool.telemetry import Metric, count

Lookup = Callable[[str, int], Awaitable[list[str]]]

_MAX_CONCURRENT_LOOKUPS: Final = 128  # uvloop has four threads: four dead name servers would make all others time out


@cache
def _thread_pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_MAX_CONCURRENT_LOOKUPS, thread_name_prefix="lookup")


async def system_lookup(host: str, port: int) -> list[str]:
    """All addresses of a name, from the system's resolver; raises AddressRefused if there is none."""
    try:
        results = await asyncio.get_running_loop().run_in_executor(
            _thread_pool(), lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        )
    except (OSError, UnicodeError) as error:
        raise AddressRefused(Refusal.UNRESOLVED) from error
    return list(dict.fromkeys(str(result[4][0]) for result in results))


async def resolve_vetted(
    host: str,
    port: int,
    *,
    allow_loopback: bool,
    networks: Networks = FORBIDDEN_NETWORKS,
    lookup: Lookup = system_lookup,
    own_endpoints: frozenset[str] = frozenset(),
) -> tuple[str, int]:
    """The vetted IP address and port. Connect to it and nothing else; Host and SNI contain the name.

    Raises AddressRefused, also if only one of the name's addresses is forbidden, or for the pool's own endpoint
    (`own_endpoints`; empty for requests to the pool's judge). Prefers IPv4: Lambda has no IPv6 egress outside a VPC.
    """
    host, port = parse_endpoint(host, str(port))
    if own_endpoints and is_own_endpoint(host, port, own_endpoints):
        raise AddressRefused(Refusal.OWN_ENDPOINT)
    addresses = [host] if is_address(host) else await lookup(host, port)
    if not addresses:
        raise AddressRefused(Refusal.UNRESOLVED)
    for address in addresses:
        reason = refusal_reason(address, networks=networks, allow_loopback=allow_loopback)
        if reason:
            count(Metric.SSRF_BLOCKED)
            raise AddressRefused(reason)
    return addresses[0] if len(addresses) == 1 else min(addresses, key=lambda address: ":" in address), port
