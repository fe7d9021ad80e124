"""Removes proxies with forbidden addresses from a list. Addresses of host names are validated at each connection."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from proxypool.network.address import FORBIDDEN_NETWORKS, Networks, Refusal, is_address, is_own_endpoint, refusal_reason
from proxypool.proxies.proxy import Proxy
from proxypool.sources.formats import ParseResult


def remove_forbidden(
    parsed: ParseResult, *, allow_loopback: bool, networks: Networks = FORBIDDEN_NETWORKS
) -> ParseResult:
    """The list without forbidden proxies, which are counted by reason."""
    rejected = Counter(parsed.rejected)
    allowed: list[Proxy] = []
    for proxy in parsed.proxies:
        reason = _refusal(proxy, networks, allow_loopback)
        if reason:
            rejected[reason] += 1
        else:
            allowed.append(proxy)
    return replace(parsed, proxies=tuple(allowed), rejected=rejected)


def _refusal(proxy: Proxy, networks: Networks, allow_loopback: bool) -> str:
    if is_address(proxy.host):
        return refusal_reason(proxy.host, networks=networks, allow_loopback=allow_loopback)
    return Refusal.OWN_ENDPOINT if is_own_endpoint(proxy.host, proxy.port) else ""
