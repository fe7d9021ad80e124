"""Plain text, one proxy per line (layouts: `line.py`); a line may also be a JSON object or an HTML table row.

The common layouts are parsed here by splitting at colons, all others by `line.parse_line`; a test checks that both
agree. Blank lines and comments (#, ;, //) are not rows.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from proxypool.errors import AddressRefused
from proxypool.network.address import OCTETS, is_ipv4, permitted_ports
from proxypool.proxies.proxy import Protocol, Proxy
from proxypool.sources.formats import json
from proxypool.sources.formats.line import MAX_CREDENTIAL_BYTES, SCHEMES, make_proxy, parse_line
from proxypool.sources.formats.rows import BinaryReader, Options, ParseResult, Rejection
from proxypool.sources.formats.text import MAX_ROW_BYTES, decode_blocks

_PLAIN: Final = bytes((10, *range(32, 127)))  # printable ASCII and line feeds
_make: Callable[[tuple[object, ...]], Proxy] = partial(tuple.__new__, Proxy)  # avoids a Python call
_NO_ADDRESS, _NO_PORT = Rejection.NO_ADDRESS.value, Rejection.NO_PORT.value  # hashing an enum member is a Python call
_DIGIT: Final = re.compile("[0-9]")  # a line without digits has no port
_MAX_NAME_CHARS: Final = 63  # limits each label, too
_NAME: Final = re.compile(r"(?:[a-z0-9]+(?:-+[a-z0-9]+)*\.)+[a-z]{2,24}")
_ROW: Final = re.compile(r"<t[dD][^>]*>\s*([0-9.]{7,15})\s*</t[dD]>\s*<t[dD][^>]*>\s*([0-9]{1,6})\s*</t[dD]>")
_CELL: Final = re.compile(r"<td[^>]*>\s*(socks4|socks5|http|https)\s*</td>")
_COMMENTS: Final = frozenset("#;")
_LOCAL_ENDINGS: Final = ("local", "internal", "localhost", "localdomain", "arpa")


def parse(file: BinaryReader, options: Options) -> Iterator[ParseResult]:
    """Parses a text; rejected lines are counted by reason."""
    for text in decode_blocks(file):
        proxies: list[Proxy] = []
        rejected: Counter[str] = Counter()
        _parse_block(text, options, proxies, rejected)
        yield ParseResult(proxies=tuple(proxies), rejected=rejected)


def _parse_block(text: str, options: Options, proxies: list[Proxy], rejected: Counter[str]) -> None:
    protocol, is_plain = options.default_protocol, text.isascii() and not text.encode().translate(None, _PLAIN)
    add, make, get_port, is_octets = proxies.append, _make, permitted_ports().get, OCTETS.issuperset
    rare_layouts = _RareLayouts(options, proxies, rejected)
    for line in text.split("\n"):
        parts = line.split(":")
        count = len(parts)
        if count == 2:
            port = get_port(parts[1])
            octets = parts[0].split(".")
            if port and len(octets) == 4 and is_octets(octets):
                add(make((protocol, parts[0], port, None, None)))
                continue
        elif count == 4 and is_plain:
            proxy = _with_credentials(line, parts, protocol)
            if proxy is not None:
                add(proxy)
                continue
        elif not line or line[0] in _COMMENTS:
            continue
        elif count == 1 and is_plain and (reason := _reason_without_colon(line)):
            rejected[reason] += 1
            continue
        rare_layouts.read(line)


def _reason_without_colon(line: str) -> str:
    """The rejection reason of a line that is clearly not a proxy; "" if it may be one in columns."""
    if _DIGIT.search(line) is None or line.isalnum():
        return "" if line.isspace() or line.startswith("//") else _NO_ADDRESS
    return _NO_PORT if is_ipv4(line) else ""


def _with_credentials(line: str, parts: list[str], protocol: Protocol) -> Proxy | None:
    """scheme://user:pass@host:port and host:port:user:pass without special cases; None if `parse_line` must decide."""
    first, second, third, fourth = parts
    if " " in line or len(line) > MAX_CREDENTIAL_BYTES:
        return None
    if second[:2] == "//":
        scheme, port = SCHEMES.get(first), permitted_ports().get(fourth)
        password, at_sign, host = third.rpartition("@")
        if scheme and port and at_sign and len(second) > 2 and "%" not in line:
            octets = host.split(".")
            if (len(octets) == 4 and OCTETS.issuperset(octets)) or _is_plain_name(host):
                return _make((scheme, host, port, second[2:], password))
        return None
    port = permitted_ports().get(second)
    if port and third and "@" not in line and is_ipv4(first):
        return _make((protocol, first, port, third, fourth))
    return None


def _is_plain_name(host: str) -> bool:
    return (
        len(host) <= _MAX_NAME_CHARS
        and _NAME.fullmatch(host) is not None
        and "xn--" not in host
        and not host.endswith(_LOCAL_ENDINGS)
    )


class _RareLayouts:
    """Parses the less common layouts."""

    __slots__ = ("options", "proxies", "rejected")

    def __init__(self, options: Options, proxies: list[Proxy], rejected: Counter[str]) -> None:
        self.options, self.proxies, self.rejected = options, proxies, rejected

    def read(self, line: str) -> None:
        """Adds the line's proxies, or its rejection reason."""
        line = line.strip()
        first = line[:1]
        try:
            if len(line) > MAX_ROW_BYTES and first in "{<":
                raise AddressRefused(Rejection.TOO_LONG)
            if first == "{":
                json.read_row(line, self.options, self.proxies, self.rejected)
            elif first == "<":
                self.proxies.append(_html_row(line, self.options.default_protocol))
            elif first and first not in _COMMENTS and not line.startswith("//"):
                self.proxies.append(parse_line(line, self.options.default_protocol))
        except AddressRefused as refused:
            self.rejected[refused.reason] += 1


def _html_row(line: str, default_protocol: Protocol) -> Proxy:
    match = _ROW.search(line)
    if match is None:
        raise AddressRefused(Rejection.NO_ADDRESS)
    host, port = match.groups()
    rest = line[match.end() :].lower()
    protocol_cell = _CELL.search(rest) if "ttp" in rest or "ocks" in rest else None
    return make_proxy(SCHEMES[protocol_cell[1]] if protocol_cell else default_protocol, host, port, None, None)
