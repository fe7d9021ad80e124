"""Parses one line into one proxy, in the layouts that occur in lists.

    ip:port · host:port · [v6]:port · scheme://… · user:pass@host:port · host:port@user:pass · host:port@socks5
    host:port:user · host:port:user:pass
    columns separated by white space, `;`, `|` or `,`: an address, its port in the same or the next column, a protocol, others

Credentials are percent-encoded in URLs and literal in the colon layouts. A provider's placeholder `{session}` in
a user name is preserved: each lease fills it in.
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
MAX_CREDENTIAL_BYTES: Final = 255  # limit of SOCKS5
MAX_COLUMNS: Final = 16  # columns that are searched for an address
SCHEMES: Final = {
    "http": Protocol.HTTP,
    "https": Protocol.HTTPS,
    "socks4": Protocol.SOCKS4,
    "socks4a": Protocol.SOCKS4,
    "socks5": Protocol.SOCKS5,
    "socks5h": Protocol.SOCKS5,
}
CONTROL_CHARACTERS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_FORBIDDEN_IN_CREDENTIALS: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_ADDRESS: Final = re.compile(r"[A-Za-z0-9._-]+(?::[A-Za-z0-9]*)?")
_SEPARATORS: Final = re.compile(r"[\s;|,#]+")
_COMMENT: Final = re.compile(r"(?:(?<=[\s0-9])#|\s//).*")


def parse_line(text: str, default_protocol: Protocol) -> Proxy:
    """The proxy of a line; raises AddressRefused with the reason."""
    if len(text) * 4 > MAX_LINE_BYTES and len(text.encode("utf-8", "replace")) > MAX_LINE_BYTES:
        raise AddressRefused(Rejection.TOO_LONG)
    if not text.isprintable() and CONTROL_CHARACTERS.search(text):
        raise AddressRefused(Rejection.CONTROL)
    parts = text.split(None, 1) or [""]
    first_word, rest = parts[0], parts[1] if len(parts) > 1 else ""
    if not rest and _ADDRESS.fullmatch(first_word):
        return make_proxy(default_protocol, *_endpoint(first_word), None, None)
    try:
        proxy = parse_token(first_word, default_protocol)
    except AddressRefused:
        if rest or _SEPARATORS.search(first_word):
            columns = _parse_columns(text, default_protocol)
            if columns is not None:
                return columns
        raise
    if rest and "://" not in first_word and "@" not in first_word:
        return _with_protocol(proxy, _SEPARATORS.split(_COMMENT.sub("", " " + rest)))
    return proxy


def parse_token(text: str, default_protocol: Protocol) -> Proxy:
    """Parses a proxy without white space; raises AddressRefused."""
    scheme, mark, rest = text.partition("://")
    if not mark:
        return _parse_rest(text, default_protocol)
    protocol = SCHEMES.get(scheme.lower())
    if protocol is None:
        raise AddressRefused(Refusal.SCHEME)
    return _parse_rest(rest.rstrip("/"), protocol)


def make_proxy(protocol: Protocol, host: str, port: str, username: str | None, password: str | None) -> Proxy:
    """A proxy from strings; raises AddressRefused if the address is not canonical or the credentials cannot be sent."""
    canonical, number = parse_endpoint(host, port)
    if not username and not password:
        return Proxy(protocol, canonical, number)
    if not all(_is_sendable(text) for text in (username or "", password or "")):
        raise AddressRefused(Rejection.CREDENTIALS)
    return Proxy(protocol, canonical, number, username or "", password)


def _parse_rest(text: str, protocol: Protocol) -> Proxy:
    """Parses the part after the scheme."""
    if "@" not in text:
        return _parse_colons(text, protocol)
    left, _, right = text.rpartition("@")  # the last one: passwords may contain @, addresses cannot
    if right.lower() in SCHEMES:
        return _parse_rest(left, SCHEMES[right.lower()])
    try:
        return make_proxy(protocol, *_endpoint(right), *_parse_userinfo(left))
    except AddressRefused:
        address, _, credentials = text.partition("@")  # the layout host:port@user:pass
        with suppress(AddressRefused):
            return make_proxy(protocol, *_endpoint(address), *_parse_userinfo(credentials))
        raise


def _parse_colons(text: str, protocol: Protocol) -> Proxy:
    """host:port, optionally with :user or :user:pass; percent signs are literal in this layout."""
    host, tail = _endpoint(text)
    port, _, credentials = tail.partition(":")
    if not credentials:
        return make_proxy(protocol, host, port.rstrip("/"), None, None)
    username, _, password = credentials.partition(":")
    return make_proxy(protocol, host, port, username, password)


def _endpoint(text: str) -> tuple[str, str]:
    """The host (with brackets) and the text after its colon."""
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
    """The first column that is a proxy, or an address followed by a port."""
    words = [word for word in _SEPARATORS.split(_COMMENT.sub("", text)) if word][:MAX_COLUMNS]
    is_first = True
    for position, word in enumerate(words):
        following = words[position + 1] if position + 1 < len(words) else ""
        with suppress(AddressRefused):
            if ":" in word.strip("[]:"):
                return _with_protocol(parse_token(word, default_protocol), words)
        with suppress(AddressRefused):
            if following and (is_first or is_address(word)):  # a name in a later column is other text
                return _with_protocol(make_proxy(default_protocol, parse_host(word), following, None, None), words)
        is_first = is_first and word.lower() in SCHEMES
    return None


def _with_protocol(proxy: Proxy, words: list[str]) -> Proxy:
    """The proxy with the protocol that a column names, if any."""
    protocol = next((SCHEMES[word.lower()] for word in words if word.lower() in SCHEMES), proxy.protocol)
    if protocol is proxy.protocol:
        return proxy
    return Proxy(protocol, proxy.host, proxy.port, proxy.username, proxy.password)


def _parse_userinfo(credentials: str) -> tuple[str, str | None]:
    """Percent-decoded user name and password; None if there is no password."""
    username, colon, password = credentials.partition(":")
    try:
        return unquote(username, errors="strict"), unquote(password, errors="strict") if colon else None
    except UnicodeDecodeError as error:
        raise AddressRefused(Rejection.CREDENTIALS) from error


def _is_sendable(text: str) -> bool:
    """True if a user name or password fits into a header and a SOCKS5 handshake."""
    try:
        return len(text.encode()) <= MAX_CREDENTIAL_BYTES and not _FORBIDDEN_IN_CREDENTIALS.search(text)
    except UnicodeEncodeError:  # an unpaired surrogate
        return False
