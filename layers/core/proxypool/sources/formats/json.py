"""JSON: objects with a host and a port, and strings that are lines, at any depth of lists and objects.

An object with several protocols is several proxies. A key that is a protocol (`{"socks5": ["ip:port", …]}`) applies to
everything below it. Strict: duplicate keys, NaN and infinite numbers are rejected.
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
from proxypool.sources.formats.rows import BinaryReader, Options, ParseResult, Rejection, read_document
from proxypool.sources.formats.text import decode, decode_blocks

MAX_DEPTH: Final = 16
_Row = Mapping[str, Any] | str


def parse(file: BinaryReader, options: Options) -> Iterator[ParseResult]:
    """Parses a JSON document; anything but strict JSON is one rejected row."""
    proxies: list[Proxy] = []
    rejected: Counter[str] = Counter()
    try:
        read_row(decode(read_document(file)).strip(), options, proxies, rejected)
    except AddressRefused as refused:
        rejected[refused.reason] += 1
    yield ParseResult(proxies=tuple(proxies), rejected=rejected)


def parse_lines(file: BinaryReader, options: Options) -> Iterator[ParseResult]:
    """NDJSON: one document per line."""
    for text in decode_blocks(file):
        proxies: list[Proxy] = []
        rejected: Counter[str] = Counter()
        for line in filter(None, map(str.strip, text.split("\n"))):
            try:
                read_row(line, options, proxies, rejected)
            except AddressRefused as refused:
                rejected[refused.reason] += 1
        yield ParseResult(proxies=tuple(proxies), rejected=rejected)


def read_row(text: str, options: Options, proxies: list[Proxy], rejected: Counter[str]) -> None:
    """Adds the proxies of one JSON text, and counts rejected rows; raises AddressRefused if it is not JSON."""
    value = _loads(text)
    if options.path:
        value = _resolve_path(value, options.path)
    if type(value) is dict and (proxy := fields.parse_plain_row(value, options.default_protocol)):
        proxies.append(proxy)
        return
    for row, protocol in _find_rows(value, 0, options.default_protocol, rejected):
        try:
            if isinstance(row, str):
                proxies.append(parse_line(row, protocol))
            else:
                proxies.extend(fields.parse_row(row, protocol))
        except AddressRefused as refused:
            rejected[refused.reason] += 1


def is_json(text: str) -> bool:
    """True if the text is one strict JSON document."""
    try:
        _loads(text)
    except AddressRefused:
        return False
    return True


def _find_rows(value: Any, depth: int, protocol: Protocol, rejected: Counter[str]) -> Iterator[tuple[_Row, Protocol]]:
    """All rows with their protocol: objects with an address, strings in lists, lists that begin with an address and a
    port.
    """
    if depth > MAX_DEPTH:
        rejected[Rejection.TOO_DEEP] += 1
    elif isinstance(value, dict):
        if fields.has_address(value):
            yield value, protocol
            return
        for name, item in value.items():
            item_protocol = SCHEMES.get(name.lower(), protocol)
            if isinstance(item, dict | list):
                yield from _find_rows(item, depth + 1, item_protocol, rejected)
            elif isinstance(item, str) and _is_proxy(item):
                yield item, item_protocol
    elif isinstance(value, list):
        if _is_pair(value):
            yield " ".join(str(item) for item in value if isinstance(item, str | int)), protocol
            return
        for item in value:
            if isinstance(item, str):
                yield item, protocol
            elif isinstance(item, dict | list):
                yield from _find_rows(item, depth + 1, protocol, rejected)
    elif isinstance(value, str) and depth == 0:
        yield value, protocol


def _is_proxy(text: str) -> bool:
    """True if the string is a proxy; other strings in objects are not rows."""
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


def _resolve_path(value: Any, path: str) -> Any:
    for name in path.split("."):
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and name.isascii() and name.isdigit() and int(name[:9]) < len(value):
            value = value[int(name)]
        else:
            raise AddressRefused(Rejection.NO_PATH)
    return value


def _reject_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("duplicate key")
    return result


def _reject_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_strict: Final = json.JSONDecoder(object_pairs_hook=_reject_duplicate_keys, parse_constant=_reject_constant).raw_decode
_lenient: Final = json.JSONDecoder(parse_constant=_reject_constant).raw_decode


def _loads(text: str) -> Any:
    try:
        value, end = _lenient(text)
        if type(value) is not dict or text.count(":") != len(value):  # otherwise there cannot be a duplicate key
            value, end = _strict(text)
    except (ValueError, RecursionError) as error:
        raise AddressRefused(Rejection.NOT_JSON) from error
    if end != len(text):
        raise AddressRefused(Rejection.NOT_JSON)
    return value
