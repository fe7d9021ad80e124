"""What a request through the proxy shows of us and of the proxy. Pure: compares with what a direct request shows."""

from __future__ import annotations

import re
from collections.abc import Iterable

from proxypool.proxies.proxy import Anonymity

_REVEALING = frozenset(
    {
        "via", "forwarded", "x-real-ip", "x-client-ip", "client-ip", "true-client-ip", "x-originating-ip", "x-remote-ip",
        "x-remote-addr", "x-cluster-client-ip", "cf-connecting-ip", "from", "x-bluecoat-via", "x-cache", "proxy",
    }
)  # fmt: skip
_REVEALING_STARTS = ("x-forwarded", "proxy-", "x-proxy")
_OWN_MAKING = frozenset({"host", "user-agent", "accept", "connection"})  # Host holds the judge's own address


def anonymity(
    headers: Iterable[tuple[str, str]], *, own: frozenset[str], direct: frozenset[tuple[str, str]]
) -> Anonymity:
    """The level that the judge's headers show; `own` are our addresses, `direct` the headers of a direct request."""
    added = [pair for pair in headers if pair not in direct and pair[0] not in _OWN_MAKING]
    if any(_names(value, address) for _, value in added for address in own):
        return Anonymity.TRANSPARENT
    if any(name in _REVEALING or name.startswith(_REVEALING_STARTS) for name, _ in added):
        return Anonymity.ANONYMOUS
    return Anonymity.ELITE


def _names(value: str, address: str) -> bool:
    """Whether the address stands in the text, not merely as a part of a longer one."""
    return re.search(rf"(?<![0-9a-fA-F.]){re.escape(address)}(?![0-9a-fA-F]|\.[0-9])", value) is not None
