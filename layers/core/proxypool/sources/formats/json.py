"""JSON: objects that name a host and a port, and texts that are lines, at any place of a list or an object.

An object with several protocols is several proxies. A key that is a protocol (`{"socks5": ["ip:port", …]}`) is that of
all below it. Strict: doubled keys, NaN and endless numbers are not JSON.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from proxypool.errors import AddressRefused
from proxypool.network.address import is_address, parse_endpoint
from proxypool.proxies.proxy import Protocol, Proxy
from proxypool.sources.formats import fields
from proxypool.sources.formats.line import SCHEMES, parse_line
from proxypool.sources.formats.rows import Options, Parsed, Readable, Rejection, read_document
from proxypool.sources.formats.text import blocks, decode

MAX_DEPTH: Final = 16
_Row = Mapping[str, Any] | str


def parse(file: Readable, options: Options) -> Iterator[Parsed]:
    """The proxies of a JSON document; what is not strict JSON is one rejected row."""
    found: list[Proxy] = []
    rejected: Counter[str] = Counter()
    try:
        read_row(decode(read_document(file)).strip(), options, found, rejected)
    except AddressRefused as refused:
        rejected[refused.reason] += 1
    yield Parsed(proxies=tuple(found), rejected=rejected)


def parse_lines(file: Readable, options: Options) -> Iterator[Parsed]:
    """NDJSON: a document a line."""
    for text in blocks(file):
        found: list[Proxy] = []
        rejected: Counter[str] = Counter()
        for line in filter(None, map(str.strip, text.split("\n"))):
            try:
                read_row(line, options, found, rejected)
            except AddressRefused as refused:
                rejected[refused.reason] += 1
        yield Parsed(proxies=tuple(found), rejected=rejected)


def read_row(text: str, options: Options, found: list[Proxy], rejected: Counter[str]) -> None:
    """Adds the proxies of one JSON text, and the reasons of its bad rows; raises AddressRefused where it is not JSON."""
    value = _loads(text)
    if options.path:
        value = _at(value, options.path)
    if type(value) is dict and (proxy := fields.plain_proxy(value, options.default_protocol)):
        found.append(proxy)
        return
    for row, protocol in _rows(value, 0, options.default_protocol, rejected):
        try:
            if isinstance(row, str):
                found.append(parse_line(row, protocol))
            else:
                found.extend(fields.proxies(row, protocol))
        except AddressRefused as refused:
            rejected[refused.reason] += 1


def is_json(text: str) -> bool:
    """Whether a text is one strict JSON document."""
    try:
        _loads(text)
    except AddressRefused:
        return False
    return True


def _rows(value: Any, depth: int, protocol: Protocol, rejected: Counter[str]) -> Iterator[tuple[_Row, Protocol]]:
    """Every object that names a proxy, every text in a list, every list that begins with an address and a port."""
    if depth > MAX_DEPTH:
        rejected[Rejection.TOO_DEEP] += 1
    elif isinstance(value, dict):
        if fields.names_a_proxy(value):
            yield value, protocol
            return
        for name, item in value.items():
            below = SCHEMES.get(name.lower(), protocol)
            if isinstance(item, dict | list):
                yield from _rows(item, depth + 1, below, rejected)
            elif isinstance(item, str) and _is_proxy(item):
                yield item, below
    elif isinstance(value, list):
        if _is_pair(value):
            yield " ".join(str(item) for item in value if isinstance(item, str | int)), protocol
            return
        for item in value:
            if isinstance(item, str):
                yield item, protocol
            elif isinstance(item, dict | list):
                yield from _rows(item, depth + 1, protocol, rejected)
    elif isinstance(value, str) and depth == 0:
        yield value, protocol


def _is_proxy(text: str) -> bool:
    """Whether a text that stands anywhere is a proxy: only then it is a row."""
    try:
        parse_line(text, Protocol.HTTP)
    except AddressRefused:
        return False
    return True


def _is_pair(value: list[Any]) -> bool:
    if len(value) < 2 or not isinstance(value[0], str) or not is_address(value[0].strip()):
        return False
    try:
        parse_endpoint(value[0].strip(), str(value[1]).strip())
    except AddressRefused:
        return False
    return True


def _at(value: Any, path: str) -> Any:
    for name in path.split("."):
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and name.isascii() and name.isdigit() and int(name[:9]) < len(value):
            value = value[int(name)]
        else:
            raise AddressRefused(Rejection.NO_PATH)
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise ValueError("a key is there twice")
    return out


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_strict: Final = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant).raw_decode
_quick: Final = json.JSONDecoder(parse_constant=_no_constant).raw_decode


def _loads(text: str) -> Any:
    try:
        value, end = _quick(text)
        if type(value) is not dict or text.count(":") != len(value):  # else there is no room for a doubled key
            value, end = _strict(text)
    except (ValueError, RecursionError) as error:
        raise AddressRefused(Rejection.NOT_JSON) from error
    if end != len(text):
        raise AddressRefused(Rejection.NOT_JSON)
    return value
