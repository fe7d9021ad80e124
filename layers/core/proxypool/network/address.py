"""Address policy: strict parsing of hosts, ports and URLs, then a table of forbidden networks. Pure.

`ipaddress.is_global` is not enough (it calls 64:ff9b::a9fe:a9fe and 224.0.0.1 global), and the system's resolver
accepts 127.1, 0x7f.1 and 2130706433 as addresses. Therefore a host has one canonical spelling, or it is refused.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from ipaddress import IPv4Address, IPv6Address, ip_network
from socket import inet_aton
from typing import Final

from proxypool.errors import AddressRefused


class Refusal(StrEnum):
    """Why an address, port or URL is refused (closed set)."""

    MALFORMED = "malformed"  # not a canonical spelling
    NOT_ASCII = "not_ascii"  # a URL with non-ASCII characters
    NAME = "name"  # invalid by IDNA 2008, or a homograph that mixes scripts
    PORT = "port"  # not 1–65535 in canonical decimal
    PORT_REFUSED = "port_refused"  # SMTP
    LOCAL_NAME = "local_name"  # a name that resolves only inside a private network
    SCHEME = "scheme"  # not https (or http, if permitted)
    CREDENTIALS = "credentials"  # a user name or password in a URL
    UNRESOLVED = "unresolved"  # the name has no address
    UNSPECIFIED = "unspecified"
    LOOPBACK = "loopback"
    PRIVATE = "private"
    SHARED = "shared"
    LINK_LOCAL = "link_local"  # includes cloud metadata services
    METADATA = "metadata"
    DOCUMENTATION = "documentation"
    BENCHMARK = "benchmark"
    MULTICAST = "multicast"
    RESERVED = "reserved"
    OWN_ENDPOINT = "ours"  # the pool's judge or API, or an endpoint that AWS serves: would be a loop
    WRAPPED = "wrapped"  # an IPv4 address embedded in IPv6: implementations normalise it differently


Networks = tuple[tuple[str, Refusal], ...]

FORBIDDEN_NETWORKS: Final[Networks] = (
    ("0.0.0.0/8", Refusal.UNSPECIFIED),
    ("10.0.0.0/8", Refusal.PRIVATE),
    ("100.100.100.200/32", Refusal.METADATA),  # Alibaba's
    ("100.64.0.0/10", Refusal.SHARED),
    ("127.0.0.0/8", Refusal.LOOPBACK),
    ("168.63.129.16/32", Refusal.METADATA),  # Azure's, in a public network
    ("169.254.0.0/16", Refusal.LINK_LOCAL),
    ("172.16.0.0/12", Refusal.PRIVATE),
    ("192.0.0.0/24", Refusal.RESERVED),
    ("192.0.2.0/24", Refusal.DOCUMENTATION),
    ("192.88.99.0/24", Refusal.RESERVED),
    ("192.168.0.0/16", Refusal.PRIVATE),
    ("198.18.0.0/15", Refusal.BENCHMARK),
    ("198.51.100.0/24", Refusal.DOCUMENTATION),
    ("203.0.113.0/24", Refusal.DOCUMENTATION),
    ("224.0.0.0/4", Refusal.MULTICAST),
    ("240.0.0.0/4", Refusal.RESERVED),
    ("::/128", Refusal.UNSPECIFIED),
    ("::1/128", Refusal.LOOPBACK),
    ("::/96", Refusal.WRAPPED),
    ("64:ff9b::/96", Refusal.WRAPPED),  # NAT64
    ("64:ff9b:1::/48", Refusal.WRAPPED),
    ("::/3", Refusal.RESERVED),  # the rest below the global unicast block
    ("2001::/32", Refusal.WRAPPED),  # Teredo
    ("2001:db8::/32", Refusal.DOCUMENTATION),
    ("2001::/23", Refusal.RESERVED),
    ("2002::/16", Refusal.WRAPPED),  # 6to4
    ("3fff::/20", Refusal.DOCUMENTATION),
    ("fd00:ec2::/32", Refusal.METADATA),
    ("fd20:ce::254/128", Refusal.METADATA),  # Google's
    ("fc00::/7", Refusal.PRIVATE),
    ("fe80::/10", Refusal.LINK_LOCAL),
    ("ff00::/8", Refusal.MULTICAST),
    ("4000::/2", Refusal.RESERVED),
    ("8000::/2", Refusal.RESERVED),
    ("c000::/3", Refusal.RESERVED),
    ("e000::/4", Refusal.RESERVED),
    ("f000::/5", Refusal.RESERVED),
    ("f800::/6", Refusal.RESERVED),  # up to the private networks, which a source's flag may permit
    ("fe00::/8", Refusal.RESERVED),
)
"""Networks outside the public internet, from the IANA registries; the first match gives the reason."""

_REFUSED_PORTS: Final = frozenset({"25"})
OCTETS: Final = frozenset(map(str, range(256)))
_LABEL: Final = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_NUMERIC: Final = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)")  # accepted as IPv4 addresses by resolvers
_AWS_ENDPOINT: Final = re.compile(
    r"(?:.*\.)?(?:cloudfront\.net|on\.aws|(?:execute-api|lambda|sqs|dynamodb|s3)[a-z0-9.-]*\.amazonaws\.com(?:\.cn)?)"
)
_LOCAL_SUFFIXES: Final = (".localhost", ".local", ".internal", ".localdomain", ".home.arpa")
_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)([/?][^#]*)?(?:#.*)?")
_PRINTABLE_ASCII: Final = re.compile(r"[!-\[\]-~]+")  # ASCII without control characters, space and backslash
_DEFAULT_PORTS: Final = {"http": "80", "https": "443"}
MAX_NAME_CHARS: Final = 253
MAX_URL_CHARS: Final = 2_048


@dataclass(frozen=True, slots=True, kw_only=True)
class Url:
    """A parsed URL; `host` is canonical, `target` is path and query."""

    scheme: str
    host: str
    port: int
    target: str

    @property
    def authority(self) -> str:
        """Value of the Host header: without the port if it is the scheme's default."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if str(self.port) == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.target}"


def parse_endpoint(host: str, port: str) -> tuple[str, int]:
    """The canonical host and port; raises AddressRefused. Does not check whether the address is public (see
    `refusal_reason`).
    """
    return parse_host(host), parse_port(port)


def parse_port(text: str) -> int:
    """A port number, 1–65535 in ASCII digits without leading zeros, not 25; raises AddressRefused."""
    port = permitted_ports().get(text)
    if port is None:
        raise AddressRefused(Refusal.PORT_REFUSED if text in _REFUSED_PORTS else Refusal.PORT)
    return port


@cache
def permitted_ports() -> Mapping[str, int]:
    """All permitted ports by their canonical spelling: a dictionary lookup costs a third of a regex match and int()."""
    return {str(port): port for port in range(1, 65_536) if str(port) not in _REFUSED_PORTS}


def is_ipv4(text: str) -> bool:
    """True if the text is a canonical IPv4 address."""
    octets = text.split(".")
    return len(octets) == 4 and OCTETS.issuperset(octets)


def parse_host(text: str) -> str:
    """A canonical IPv4 address, IPv6 address (input with or without brackets; output compressed, lower case) or
    lower-case DNS name.

    An IPv4-mapped IPv6 address becomes the IPv4 address. Raises AddressRefused.
    """
    if is_ipv4(text):
        return text
    if ":" in text:
        return _parse_ipv6(text)
    name = text.lower() if text.isascii() else _a_labels(text)
    if len(name) > MAX_NAME_CHARS or not _NAME.fullmatch(name) or _NUMERIC.fullmatch(name):
        raise AddressRefused(Refusal.MALFORMED)
    if "." not in name or name.endswith(_LOCAL_SUFFIXES):
        raise AddressRefused(Refusal.LOCAL_NAME)
    if "xn--" in name and _a_labels(name) != name:
        raise AddressRefused(Refusal.NAME)
    return name


def parse_http_url(text: str, *, allow_http: bool = False) -> Url:
    """Parses a URL without credentials: https, or http if permitted. Raises AddressRefused. Does not check whether the
    address is public.
    """
    match = _URL.fullmatch(text)
    if match is None or len(text) > MAX_URL_CHARS:
        raise AddressRefused(Refusal.MALFORMED)
    scheme, authority, target = match[1].lower(), match[2], match[3] or "/"
    if not target.isascii():
        raise AddressRefused(Refusal.NOT_ASCII)
    if not _PRINTABLE_ASCII.fullmatch(target) or (
        authority.isascii() and not _PRINTABLE_ASCII.fullmatch(authority or "-")
    ):
        raise AddressRefused(Refusal.MALFORMED)
    if scheme != "https" and not (scheme == "http" and allow_http):
        raise AddressRefused(Refusal.SCHEME)
    if "@" in authority:
        raise AddressRefused(Refusal.CREDENTIALS)
    host, colon, port = authority.rpartition(":")
    if not colon or port.endswith("]"):
        host, port = authority, _DEFAULT_PORTS[scheme]
    if ":" in host and not host.startswith("["):
        raise AddressRefused(Refusal.MALFORMED)
    canonical, number = parse_endpoint(host, port)
    return Url(scheme=scheme, host=canonical, port=number, target=target if target[0] == "/" else "/" + target)


def parse_public_url(text: str, *, allow_http: bool = False, allow_loopback: bool = False) -> Url:
    """The URL, as `parse_url`, of a host that is public by its spelling (a name is vetted again where it is resolved); raises
    AddressRefused.
    """
    url = parse_http_url(text, allow_http=allow_http)
    if reason := host_refusal(url.host, allow_loopback=allow_loopback):
        raise AddressRefused(reason)
    return url


def host_refusal(host: str, *, networks: Networks = FORBIDDEN_NETWORKS, allow_loopback: bool = False) -> str:
    """Why a canonical host that is an IP address is not touched, as `refusal_reason`; "" for a name."""
    return refusal_reason(host, networks=networks, allow_loopback=allow_loopback) if is_address(host) else ""


def is_address(host: str) -> bool:
    """True if a canonical host is an IP address, False if it is a name."""
    return ":" in host or is_ipv4(host)


def refusal_reason(ip: str, *, networks: Networks = FORBIDDEN_NETWORKS, allow_loopback: bool = False) -> str:
    """The `Refusal` of an IP address; "" if it is permitted."""
    if is_ipv4(ip):
        number, version = int.from_bytes(inet_aton(ip)), 4
    else:
        try:
            ipv6 = IPv6Address(ip)
        except ValueError:
            return Refusal.MALFORMED
        if ipv6.scope_id is not None:
            return Refusal.MALFORMED
        address = ipv6.ipv4_mapped or ipv6
        number, version = int(address), address.version
    for first, last, reason in _ranges(networks)[version]:
        if first <= number <= last:
            return "" if allow_loopback and reason is Refusal.LOOPBACK else reason
    return ""


@cache
def _ranges(networks: Networks) -> dict[int, list[tuple[int, int, Refusal]]]:
    """The table as (first, last, reason) integers, by IP version."""
    ranges: dict[int, list[tuple[int, int, Refusal]]] = {4: [], 6: []}
    for text, reason in networks:
        network = ip_network(text)
        ranges[network.version].append((int(network.network_address), int(network.broadcast_address), reason))
    return ranges


def without_reasons(networks: Networks, *reasons: Refusal) -> Networks:
    """The table without the networks of these reasons, e.g. for a source with proxies at private addresses."""
    return tuple(entry for entry in networks if entry[1] not in reasons)


def own_endpoints(*urls: str) -> frozenset[str]:
    """The set for `is_own_endpoint`, from the pool's own URLs: each host:port, and each host name. Raises
    AddressRefused.
    """
    endpoints: set[str] = set()
    for url_text in filter(None, urls):
        url = parse_http_url(url_text, allow_http=True)
        endpoints.add(f"{url.host}:{url.port}")
        endpoints |= set() if is_address(url.host) else {url.host}
    return frozenset(endpoints)


def is_own_endpoint(host: str, port: int, own: frozenset[str] = frozenset()) -> bool:
    """True if the endpoint is the pool's (`own`: from `own_endpoints`), or an API, function or distribution under one of AWS's domains."""
    return host in own or f"{host}:{port}" in own or _AWS_ENDPOINT.fullmatch(host) is not None


def _a_labels(name: str) -> str:
    """The name in ASCII (xn--…), by IDNA 2008 without mappings except lower case. Raises AddressRefused."""
    import idna  # slow to import; most lists do not need it

    try:
        encoded = idna.encode(name.lower()).decode()
        labels = [idna.ulabel(label) for label in encoded.split(".")]
    except (idna.IDNAError, UnicodeError, ValueError, IndexError) as error:
        raise AddressRefused(Refusal.NAME) from error
    if any(_mixes_scripts(label) for label in labels):
        raise AddressRefused(Refusal.NAME)
    return encoded


def _mixes_scripts(label: str) -> bool:
    """True if a label mixes scripts with similar letters, such as Latin and Cyrillic."""
    scripts = {unicodedata.name(char, "").partition(" ")[0] for char in label if char.isalpha()}
    return len(scripts & {"LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE"}) > 1


def _parse_ipv6(text: str) -> str:
    inner = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    if "%" in inner:  # a zone id is only valid on its own host
        raise AddressRefused(Refusal.MALFORMED)
    try:
        address = IPv6Address(inner)
    except ValueError as error:
        raise AddressRefused(Refusal.MALFORMED) from error
    mapped: IPv4Address | None = address.ipv4_mapped
    return str(mapped or address)
