"""Plain text, one proxy a line, in the layouts that lists really use. Straight first: most lines are `ip:port`.

    ip:port · host:port · [v6]:port · scheme://… · user:pass@host:port · host:port@user:pass · host:port@socks5
    host:port:user · host:port:user:pass

Blank lines and comments (#, //) are no rows. A line ends at its first white space: what follows is not the address.
"""

from __future__ import annotations

import re
from collections import Counter
from contextlib import suppress
from typing import Final
from urllib.parse import unquote

from proxypool.errors import AddressRefused
from proxypool.network.address import IPV4, parse_endpoint
from proxypool.proxies.proxy import Protocol, Proxy
from proxypool.sources.formats import Parsed

MAX_LINE_BYTES: Final = 512
MAX_CREDENTIAL_BYTES: Final = 255  # what SOCKS5 carries
SCHEMES: Final = {
    "http": Protocol.HTTP,
    "https": Protocol.HTTPS,
    "socks4": Protocol.SOCKS4,
    "socks4a": Protocol.SOCKS4,
    "socks5": Protocol.SOCKS5,
    "socks5h": Protocol.SOCKS5,
}
_PLAIN: Final = re.compile(rf"({IPV4}):([1-9][0-9]{{0,4}})")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_UNSENDABLE: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def parse(raw: bytes, *, default_protocol: Protocol) -> Parsed:
    """The proxies of a text; see the module for the layouts. A bad line is counted by its reason."""
    found: dict[Proxy, None] = {}
    rejected: Counter[str] = Counter()
    plain = _PLAIN.fullmatch
    for line in decode(raw).replace("\r", "\n").split("\n"):
        text = line.strip()
        if not text or text.startswith(("#", "//")):
            continue
        match = plain(text)
        if match is not None and (port := int(match[2])) <= 65_535 and port != 25:
            found[Proxy(default_protocol, match[1], port)] = None
            continue
        try:
            found[parse_line(text, default_protocol)] = None
        except AddressRefused as refused:
            rejected[refused.reason] += 1
    return Parsed(proxies=tuple(found), rejected=rejected)


def parse_line(text: str, default_protocol: Protocol) -> Proxy:
    """The proxy that a line names; raises AddressRefused with the reason."""
    if len(text.encode("utf-8", "replace")) > MAX_LINE_BYTES:
        raise AddressRefused("too_long")
    if _CONTROL.search(text):
        raise AddressRefused("control")
    text = text.split(None, 1)[0]
    scheme, mark, rest = text.partition("://")
    if not mark:
        return _parse_rest(text, default_protocol)
    protocol = SCHEMES.get(scheme.lower())
    if protocol is None:
        raise AddressRefused("scheme")
    return _parse_rest(rest.rstrip("/"), protocol)


def make_proxy(protocol: Protocol, host: str, port: str, username: str | None, password: str | None) -> Proxy:
    """A proxy of texts; raises AddressRefused where the address is not canonical or the credentials cannot be sent."""
    canonical, number = parse_endpoint(host, port)
    if not all(_is_sendable(text) for text in (username or "", password or "")):
        raise AddressRefused("credentials")
    if not username and not password:
        return Proxy(protocol, canonical, number)
    return Proxy(protocol, canonical, number, username or "", password)


def decode(raw: bytes) -> str:
    """Text of whatever encoding: UTF-16 by its mark, else UTF-8, else Latin-1 (which reads any byte)."""
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        return raw.decode("utf-16", "replace")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def _parse_rest(text: str, protocol: Protocol) -> Proxy:
    """The line without its scheme."""
    if "@" not in text:
        return _parse_colons(text, protocol)
    left, _, right = text.rpartition("@")  # the last one: passwords hold @, addresses do not
    if right.lower() in SCHEMES:
        return _parse_rest(left, SCHEMES[right.lower()])
    try:
        return make_proxy(protocol, *_endpoint(right), *_decoded(left))
    except AddressRefused:
        address, _, credentials = text.partition("@")  # host:port@user:pass, then
        with suppress(AddressRefused):
            return make_proxy(protocol, *_endpoint(address), *_decoded(credentials))
        raise


def _parse_colons(text: str, protocol: Protocol) -> Proxy:
    """host:port, with :user or :user:pass behind it; nothing is percent-encoded in this layout."""
    host, tail = _split_host(text)
    port, _, credentials = tail.partition(":")
    if not credentials:
        return make_proxy(protocol, host, port, None, None)
    username, _, password = credentials.partition(":")
    return make_proxy(protocol, host, port, username, password)


def _endpoint(text: str) -> tuple[str, str]:
    return _split_host(text.rstrip("/"))


def _split_host(text: str) -> tuple[str, str]:
    """The host (brackets kept) and what follows its colon."""
    if text.startswith("["):
        inner, _, tail = text.partition("]")
        if tail.startswith(":"):
            return inner + "]", tail[1:]
        raise AddressRefused("malformed")
    host, colon, tail = text.partition(":")
    if not colon:
        raise AddressRefused("malformed")
    return host, tail


def _decoded(credentials: str) -> tuple[str, str | None]:
    """User name and password of the URL form, percent-decoded; None where there is no password."""
    username, colon, password = credentials.partition(":")
    try:
        return unquote(username, errors="strict"), unquote(password, errors="strict") if colon else None
    except UnicodeDecodeError as error:
        raise AddressRefused("credentials") from error


def _is_sendable(text: str) -> bool:
    """Whether a user name or password fits into a header and a SOCKS5 handshake."""
    try:
        return len(text.encode()) <= MAX_CREDENTIAL_BYTES and not _UNSENDABLE.search(text)
    except UnicodeEncodeError:  # half of a surrogate pair
        return False
