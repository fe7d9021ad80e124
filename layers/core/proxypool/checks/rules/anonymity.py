"""Anonymity level of a proxy, from the headers that the judge received. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import unquote

from proxypool.proxies.proxy import Anonymity

_PROXY_HEADERS = frozenset(
    {
        "via", "forwarded", "x-real-ip", "x-client-ip", "client-ip", "true-client-ip", "x-originating-ip", "x-remote-ip",
        "x-remote-addr", "x-cluster-client-ip", "cf-connecting-ip", "from", "x-bluecoat-via", "x-cache", "proxy",
    }
)  # fmt: skip
_PROXY_HEADER_PREFIXES = ("x-forwarded", "proxy-", "x-proxy")
_HOST_HEADER = "host"  # the judge's own address, in any spelling that a proxy uses
_IPV6_CANDIDATE = re.compile(r"[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*")

IPAddress = IPv4Address | IPv6Address


def anonymity_level(
    headers: Iterable[tuple[str, str]], *, own_addresses: frozenset[str], direct_headers: frozenset[tuple[str, str]]
) -> Anonymity:
    """The level of a request with these headers (lower-case names, values).

    `own_addresses` are the pool's IP addresses. `direct_headers`, those of a request without a proxy, are ignored.
    """
    added = [pair for pair in headers if pair not in direct_headers and pair[0] != _HOST_HEADER]
    if not added:
        return Anonymity.ELITE
    own_ips = [_parse_address(text) for text in own_addresses]
    if any(address and _contains_address(text, address) for _, text in added for address in own_ips):
        return Anonymity.TRANSPARENT
    if any(name in _PROXY_HEADERS or name.startswith(_PROXY_HEADER_PREFIXES) for name, _ in added):
        return Anonymity.ANONYMOUS
    return Anonymity.ELITE


def _contains_address(text: str, address: IPAddress) -> bool:
    """True if the text contains the address in any spelling, but not as a part of a longer one."""
    plain = unquote(text)
    if isinstance(address, IPv4Address):
        return any(re.search(pattern, plain, re.IGNORECASE) for pattern in _ipv4_patterns(address)) or _contains_ipv6(
            plain, address
        )
    return _contains_ipv6(plain, address)


def _ipv4_patterns(address: IPv4Address) -> Iterable[str]:
    """Patterns for dotted, zero-padded, dashed (203-0-113-9), decimal and hexadecimal spellings."""
    octets = str(address).split(".")
    yield r"(?<![0-9.])" + r"\.".join(f"0*{octet}" for octet in octets) + r"(?![0-9]|\.[0-9])"
    yield r"(?<![0-9])" + "[-_]".join(octets) + r"(?![0-9]|-[0-9])"
    yield rf"(?<![0-9.]){int(address)}(?![0-9])"
    yield rf"(?<![0-9a-f])(?:0x)?{int(address):08x}(?![0-9a-f])"


def _contains_ipv6(text: str, address: IPAddress) -> bool:
    """True if the text contains this address in IPv6 notation, which for IPv4 is IPv4-mapped or 6to4."""
    return any(_parse_address(candidate) == address for candidate in _IPV6_CANDIDATE.findall(text))


def _parse_address(text: str) -> IPAddress | None:
    try:
        address = ip_address(text)
    except ValueError:
        return None
    if isinstance(address, IPv6Address):
        return address.ipv4_mapped or address.sixtofour or address
    return address
