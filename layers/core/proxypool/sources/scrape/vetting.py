"""What a list may not name: proxies whose address is not public. A name's addresses are vetted at each connection."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from proxypool.network.address import FORBIDDEN, Networks, Refusal, is_address, is_own_endpoint, refusal_reason
from proxypool.proxies.proxy import Proxy
from proxypool.sources.formats import ParseResult


def vetted(parsed: ParseResult, *, allow_loopback: bool, networks: Networks = FORBIDDEN) -> ParseResult:
    """The list without such rows; each is counted with its reason."""
    rejected = Counter(parsed.rejected)
    good: list[Proxy] = []
    for proxy in parsed.proxies:
        reason = _refusal(proxy, networks, allow_loopback)
        if reason:
            rejected[reason] += 1
        else:
            good.append(proxy)
    return replace(parsed, proxies=tuple(good), rejected=rejected)


def _refusal(proxy: Proxy, networks: Networks, allow_loopback: bool) -> str:
    if is_address(proxy.host):
        return refusal_reason(proxy.host, networks=networks, allow_loopback=allow_loopback)
    return Refusal.OWN_ENDPOINT if is_own_endpoint(proxy.host, proxy.port) else ""
