"""What a request through the proxy shows of us and of the proxy. Pure: compares with what a direct request shows."""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import unquote

from proxypool.proxies.proxy import Anonymity

_REVEALING = frozenset(
    {
        "via", "forwarded", "x-real-ip", "x-client-ip", "client-ip", "true-client-ip", "x-originating-ip", "x-remote-ip",
        "x-remote-addr", "x-cluster-client-ip", "cf-connecting-ip", "from", "x-bluecoat-via", "x-cache", "proxy",
    }
)  # fmt: skip
_REVEALING_STARTS = ("x-forwarded", "proxy-", "x-proxy")
_OF_THE_JUDGE = "host"  # holds the judge's own address, in whatever spelling a proxy gives it
_V6 = re.compile(r"[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*")

Address = IPv4Address | IPv6Address


def anonymity(
    headers: Iterable[tuple[str, str]], *, own: frozenset[str], direct: frozenset[tuple[str, str]]
) -> Anonymity:
    """The level that the judge's headers show; `own` are our addresses, `direct` the headers of a direct request."""
    added = [pair for pair in headers if pair not in direct and pair[0] != _OF_THE_JUDGE]
    if not added:
        return Anonymity.ELITE
    addresses = [_address(text) for text in own]
    if any(address and _names(text, address) for _, text in added for address in addresses):
        return Anonymity.TRANSPARENT
    if any(name in _REVEALING or name.startswith(_REVEALING_STARTS) for name, _ in added):
        return Anonymity.ANONYMOUS
    return Anonymity.ELITE


def _names(text: str, address: Address) -> bool:
    """Whether the address stands in the text in any spelling, and not merely as a part of a longer one."""
    plain = unquote(text)
    if isinstance(address, IPv4Address):
        return any(re.search(pattern, plain, re.IGNORECASE) for pattern in _spellings(address)) or _has(plain, address)
    return _has(plain, address)


def _spellings(address: IPv4Address) -> Iterable[str]:
    """Dotted, with leading zeros, as in host names (203-0-113-9), as one number, and in hexadecimal."""
    octets = str(address).split(".")
    yield r"(?<![0-9.])" + r"\.".join(f"0*{octet}" for octet in octets) + r"(?![0-9]|\.[0-9])"
    yield r"(?<![0-9])" + "[-_]".join(octets) + r"(?![0-9]|-[0-9])"
    yield rf"(?<![0-9.]){int(address)}(?![0-9])"
    yield rf"(?<![0-9a-f])(?:0x)?{int(address):08x}(?![0-9a-f])"


def _has(text: str, address: Address) -> bool:
    """Whether an IPv6 spelling in the text is this address; mapped and translated IPv4 addresses count as themselves."""
    return any(_address(candidate) == address for candidate in _V6.findall(text))


def _address(text: str) -> Address | None:
    try:
        found = ip_address(text)
    except ValueError:
        return None
    if isinstance(found, IPv6Address):
        return found.ipv4_mapped or found.sixtofour or found
    return found
