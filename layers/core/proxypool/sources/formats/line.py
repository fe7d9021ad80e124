"""One line that names one proxy, in the layouts that lists really use.

    ip:port · host:port · [v6]:port · scheme://… · user:pass@host:port · host:port@user:pass · host:port@socks5
    host:port:user · host:port:user:pass
    columns behind white space, `;`, `|` or `,`: an address with or without its port in the next column, a protocol, anything

In a URL the credentials are percent-encoded, behind a colon they stand as they are. A provider's `{session}` in
a user name is kept: each lease fills it.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Final
from urllib.parse import unquote

from proxypool.errors import AddressRefused
from proxypool.network.address import Refusal, is_address, parse_endpoint, parse_host
from proxypool.proxies.proxy import Protocol, Proxy
from proxypool.sources.formats.rows import Rejection

MAX_LINE_BYTES: Final = 512
MAX_CREDENTIAL_BYTES: Final = 255  # what SOCKS5 carries
MAX_COLUMNS: Final = 16  # that are searched for an address
SCHEMES: Final = {
    "http": Protocol.HTTP,
    "https": Protocol.HTTPS,
    "socks4": Protocol.SOCKS4,
    "socks4a": Protocol.SOCKS4,
    "socks5": Protocol.SOCKS5,
    "socks5h": Protocol.SOCKS5,
}
CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_UNSENDABLE: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_ADDRESS: Final = re.compile(r"[A-Za-z0-9._-]+(?::[A-Za-z0-9]*)?")
_SEPARATORS: Final = re.compile(r"[\s;|,#]+")
_NOTE: Final = re.compile(r"(?:(?<=[\s0-9])#|\s//).*")


def parse_line(text: str, default_protocol: Protocol) -> Proxy:
    """The proxy that a line names; raises AddressRefused with the reason."""
    if len(text) * 4 > MAX_LINE_BYTES and len(text.encode("utf-8", "replace")) > MAX_LINE_BYTES:
        raise AddressRefused(Rejection.TOO_LONG)
    if not text.isprintable() and CONTROL.search(text):
        raise AddressRefused(Rejection.CONTROL)
    words = text.split(None, 1) or [""]
    token, more = words[0], words[1] if len(words) > 1 else ""
    if not more and _ADDRESS.fullmatch(token):
        return make_proxy(default_protocol, *_endpoint(token), None, None)
    try:
        proxy = parse_token(token, default_protocol)
    except AddressRefused:
        if more or _SEPARATORS.search(token):
            columns = _parse_columns(text, default_protocol)
            if columns is not None:
                return columns
        raise
    if more and "://" not in token and "@" not in token:
        return _with_protocol(proxy, _SEPARATORS.split(_NOTE.sub("", " " + more)))
    return proxy


def parse_token(text: str, default_protocol: Protocol) -> Proxy:
    """A proxy in one word; raises AddressRefused."""
    scheme, mark, rest = text.partition("://")
    if not mark:
        return _parse_rest(text, default_protocol)
    protocol = SCHEMES.get(scheme.lower())
    if protocol is None:
        raise AddressRefused(Refusal.SCHEME)
    return _parse_rest(rest.rstrip("/"), protocol)


def make_proxy(protocol: Protocol, host: str, port: str, username: str | None, password: str | None) -> Proxy:
    """A proxy of texts; raises AddressRefused where the address is not canonical or the credentials cannot be sent."""
    canonical, number = parse_endpoint(host, port)
    if not username and not password:
        return Proxy(protocol, canonical, number)
    if not all(_is_sendable(text) for text in (username or "", password or "")):
        raise AddressRefused(Rejection.CREDENTIALS)
    return Proxy(protocol, canonical, number, username or "", password)


def _parse_rest(text: str, protocol: Protocol) -> Proxy:
    """The word without its scheme."""
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
    host, tail = _endpoint(text)
    port, _, credentials = tail.partition(":")
    if not credentials:
        return make_proxy(protocol, host, port.rstrip("/"), None, None)
    username, _, password = credentials.partition(":")
    return make_proxy(protocol, host, port, username, password)


def _endpoint(text: str) -> tuple[str, str]:
    """The host (brackets kept) and what follows its colon."""
    if text.startswith("["):
        inner, _, tail = text.partition("]")
        if tail.startswith(":"):
            return inner + "]", tail[1:]
        raise AddressRefused(Rejection.NO_PORT if not tail else Refusal.MALFORMED)
    host, colon, tail = text.partition(":")
    if not colon:
        raise AddressRefused(Rejection.NO_PORT if is_address(host) else Rejection.NO_ADDRESS)
    return host, tail


def _parse_columns(text: str, default_protocol: Protocol) -> Proxy | None:
    """The first column that is a proxy, or an address before a port."""
    words = [word for word in _SEPARATORS.split(_NOTE.sub("", text)) if word][:MAX_COLUMNS]
    is_first = True
    for position, word in enumerate(words):
        following = words[position + 1] if position + 1 < len(words) else ""
        with suppress(AddressRefused):
            if ":" in word.strip("[]:"):
                return _with_protocol(parse_token(word, default_protocol), words)
        with suppress(AddressRefused):
            if following and (is_first or is_address(word)):  # a name elsewhere is prose
                return _with_protocol(make_proxy(default_protocol, parse_host(word), following, None, None), words)
        is_first = is_first and word.lower() in SCHEMES
    return None


def _with_protocol(proxy: Proxy, words: list[str]) -> Proxy:
    """The same with the protocol that a column names."""
    named = next((SCHEMES[word.lower()] for word in words if word.lower() in SCHEMES), proxy.protocol)
    if named is proxy.protocol:
        return proxy
    return Proxy(named, proxy.host, proxy.port, proxy.username, proxy.password)


def _decoded(credentials: str) -> tuple[str, str | None]:
    """User name and password of the URL form, percent-decoded; None where there is no password."""
    username, colon, password = credentials.partition(":")
    try:
        return unquote(username, errors="strict"), unquote(password, errors="strict") if colon else None
    except UnicodeDecodeError as error:
        raise AddressRefused(Rejection.CREDENTIALS) from error


def _is_sendable(text: str) -> bool:
    """Whether a user name or password fits into a header and a SOCKS5 handshake."""
    try:
        return len(text.encode()) <= MAX_CREDENTIAL_BYTES and not _UNSENDABLE.search(text)
    except UnicodeEncodeError:  # half of a surrogate pair
        return False
