"""From a name to the one address that is connected to: resolved once, every answer vetted, so that rebinding gains nothing."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Final

from proxypool.errors import AddressRefused
from proxypool.network.address import FORBIDDEN, Networks, Refusal, is_address, is_ours, parse_endpoint, refusal
from proxypool.telemetry import Metric, count

Lookup = Callable[[str, int], Awaitable[list[str]]]

_LOOKUPS_AT_ONCE: Final = 128  # uvloop has four threads: behind four dead name servers all others would time out


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_LOOKUPS_AT_ONCE, thread_name_prefix="lookup")


async def system_lookup(host: str, port: int) -> list[str]:
    """All addresses of a name, by the system's resolver; raises AddressRefused where it has none."""
    try:
        found = await asyncio.get_running_loop().run_in_executor(
            _threads(), lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        )
    except (OSError, UnicodeError) as error:
        raise AddressRefused(Refusal.UNRESOLVED) from error
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


async def resolve(
    host: str,
    port: int,
    *,
    allow_loopback: bool,
    networks: Networks = FORBIDDEN,
    lookup: Lookup = system_lookup,
    own: frozenset[str] = frozenset(),
) -> tuple[str, int]:
    """The IP address and port to connect to, vetted; connect to it and to nothing else, keep Host and SNI.

    Raises AddressRefused, also where a single one of a name's addresses is forbidden, and where a proxy is the pool itself
    (`own`: see `own_hosts`; empty where the pool asks its own judge). IPv4 is preferred: Lambda has no
    IPv6 egress outside of a VPC.
    """
    host, port = parse_endpoint(host, str(port))
    if own and is_ours(host, port, own):
        raise AddressRefused(Refusal.OURS)
    addresses = [host] if is_address(host) else await lookup(host, port)
    if not addresses:
        raise AddressRefused(Refusal.UNRESOLVED)
    for address in addresses:
        reason = refusal(address, networks=networks, allow_loopback=allow_loopback)
        if reason:
            count(Metric.SSRF_BLOCKED)
            raise AddressRefused(reason)
    return addresses[0] if len(addresses) == 1 else min(addresses, key=lambda address: ":" in address), port
