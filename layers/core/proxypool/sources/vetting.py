"""What a list may not name: proxies whose address is not public. A name's addresses are vetted at each connection."""

from __future__ import annotations

from collections import Counter

from proxypool.network.address import FORBIDDEN, Networks, is_address, refusal
from proxypool.proxies.proxy import Proxy
from proxypool.sources.formats import Parsed


def vetted(parsed: Parsed, *, allow_loopback: bool, networks: Networks = FORBIDDEN) -> Parsed:
    """The list without such rows; each is counted with its reason."""
    rejected = Counter(parsed.rejected)
    good: list[Proxy] = []
    for proxy in parsed.proxies:
        reason = refusal(proxy.host, networks=networks, allow_loopback=allow_loopback) if is_address(proxy.host) else ""
        if reason:
            rejected[reason] += 1
        else:
            good.append(proxy)
    return Parsed(proxies=tuple(good), rejected=rejected)
