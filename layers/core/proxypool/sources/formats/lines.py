"""Plain text, one proxy a line (layouts: `line.py`); a line may also be a JSON object or a row of an HTML table.

The common layouts are read here by splitting at colons, the rest by the careful way; a test holds that both agree. Blank
lines and comments (#, ;, //) are no rows.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from proxypool.errors import AddressRefused
from proxypool.network.address import OCTETS, is_ipv4, ports
from proxypool.proxies.proxy import Protocol, Proxy
from proxypool.sources.formats import json
from proxypool.sources.formats.line import MAX_CREDENTIAL_BYTES, SCHEMES, make_proxy, parse_line
from proxypool.sources.formats.rows import Options, Parsed, Readable, Rejection
from proxypool.sources.formats.text import MAX_ROW_BYTES, blocks

_PLAIN: Final = bytes((10, *range(32, 127)))  # printable ASCII and line feeds
_make: Callable[[tuple[object, ...]], Proxy] = partial(tuple.__new__, Proxy)  # without a Python frame
_NO_ADDRESS, _NO_PORT = Rejection.NO_ADDRESS.value, Rejection.NO_PORT.value  # an enum's hash takes a Python frame
_DIGIT: Final = re.compile("[0-9]")  # without one there is no port
_MAX_NAME_CHARS: Final = 63  # then no label is too long
_NAME: Final = re.compile(r"(?:[a-z0-9]+(?:-+[a-z0-9]+)*\.)+[a-z]{2,24}")
_ROW: Final = re.compile(r"<t[dD][^>]*>\s*([0-9.]{7,15})\s*</t[dD]>\s*<t[dD][^>]*>\s*([0-9]{1,6})\s*</t[dD]>")
_CELL: Final = re.compile(r"<td[^>]*>\s*(socks4|socks5|http|https)\s*</td>")
_COMMENTS: Final = frozenset("#;")
_LOCAL_ENDINGS: Final = ("local", "internal", "localhost", "localdomain", "arpa")


def parse(file: Readable, options: Options) -> Iterator[Parsed]:
    """The proxies of a text; see the module. A bad line is counted by its reason."""
    for text in blocks(file):
        found: list[Proxy] = []
        rejected: Counter[str] = Counter()
        _parse_block(text, options, found, rejected)
        yield Parsed(proxies=tuple(found), rejected=rejected)


def _parse_block(text: str, options: Options, found: list[Proxy], rejected: Counter[str]) -> None:
    protocol, is_plain = options.default_protocol, text.isascii() and not text.encode().translate(None, _PLAIN)
    add, make, port_of, is_octets = found.append, _make, ports().get, OCTETS.issuperset
    others = _Others(options, found, rejected)
    for line in text.split("\n"):
        parts = line.split(":")
        count = len(parts)
        if count == 2:
            port = port_of(parts[1])
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
        others.read(line)


def _reason_without_colon(line: str) -> str:
    """Why a line is no proxy, where that is plain to see; "" where it may be one in columns."""
    if _DIGIT.search(line) is None or line.isalnum():
        return "" if line.isspace() or line.startswith("//") else _NO_ADDRESS
    return _NO_PORT if is_ipv4(line) else ""


def _with_credentials(line: str, parts: list[str], protocol: Protocol) -> Proxy | None:
    """scheme://user:pass@host:port and host:port:user:pass where nothing is encoded or doubtful, None elsewhere."""
    first, second, third, fourth = parts
    if " " in line or len(line) > MAX_CREDENTIAL_BYTES:
        return None
    if second[:2] == "//":
        named, port = SCHEMES.get(first), ports().get(fourth)
        password, mark, host = third.rpartition("@")
        if named and port and mark and len(second) > 2 and "%" not in line:
            octets = host.split(".")
            if (len(octets) == 4 and OCTETS.issuperset(octets)) or _is_usual_name(host):
                return _make((named, host, port, second[2:], password))
        return None
    port = ports().get(second)
    if port and third and "@" not in line and is_ipv4(first):
        return _make((protocol, first, port, third, fourth))
    return None


def _is_usual_name(host: str) -> bool:
    return (
        len(host) <= _MAX_NAME_CHARS
        and _NAME.fullmatch(host) is not None
        and "xn--" not in host
        and not host.endswith(_LOCAL_ENDINGS)
    )


class _Others:
    """What is not one of the common layouts."""

    __slots__ = ("found", "options", "rejected")

    def __init__(self, options: Options, found: list[Proxy], rejected: Counter[str]) -> None:
        self.options, self.found, self.rejected = options, found, rejected

    def read(self, line: str) -> None:
        """Adds the line's proxies, or its reason."""
        line = line.strip()
        first = line[:1]
        try:
            if len(line) > MAX_ROW_BYTES and first in "{<":
                raise AddressRefused(Rejection.TOO_LONG)
            if first == "{":
                json.read_row(line, self.options, self.found, self.rejected)
            elif first == "<":
                self.found.append(_html_row(line, self.options.default_protocol))
            elif first and first not in _COMMENTS and not line.startswith("//"):
                self.found.append(parse_line(line, self.options.default_protocol))
        except AddressRefused as refused:
            self.rejected[refused.reason] += 1


def _html_row(line: str, default_protocol: Protocol) -> Proxy:
    match = _ROW.search(line)
    if match is None:
        raise AddressRefused(Rejection.NO_ADDRESS)
    host, port = match.groups()
    rest = line[match.end() :].lower()
    named = _CELL.search(rest) if "ttp" in rest or "ocks" in rest else None
    return make_proxy(SCHEMES[named[1]] if named else default_protocol, host, port, None, None)
