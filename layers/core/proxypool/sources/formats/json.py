"""JSON: objects that name a host and a port, and texts that are lines, at any place of a list or an object.

Field names are those that APIs really use; an object with several protocols is several proxies.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from proxypool.errors import AddressRefused
from proxypool.proxies.proxy import Protocol, Proxy
from proxypool.sources.formats import Parsed
from proxypool.sources.formats.lines import SCHEMES, decode, make_proxy, parse_line

MAX_DEPTH: Final = 16
_HOST: Final = ("ip", "host", "ip_address", "ipaddress", "address", "addr", "server", "hostname")
_PORT: Final = ("port", "proxy_port")
_PROTOCOL: Final = ("protocols", "protocol", "type", "types", "scheme")
_USERNAME: Final = ("username", "user", "login")
_PASSWORD: Final = ("password", "pass")
_TEXT: Final = ("proxy", "url", "proxy_url")


def parse(raw: bytes, *, default_protocol: Protocol) -> Parsed:
    """The proxies of a JSON text; what is not strict JSON (depth, duplicate keys, NaN, endless numbers) is one rejected row."""
    try:
        value = json.loads(decode(raw), object_pairs_hook=_unique, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return Parsed(rejected=Counter(not_json=1))
    found: dict[Proxy, None] = {}
    rejected: Counter[str] = Counter()
    for row in _rows(value, 0, rejected):
        try:
            found |= dict.fromkeys(_proxies(row, default_protocol))
        except AddressRefused as refused:
            rejected[refused.reason] += 1
    return Parsed(proxies=tuple(found), rejected=rejected)


def _rows(value: Any, depth: int, rejected: Counter[str]) -> Iterator[Mapping[str, Any] | str]:
    """Every object that names a host or a proxy, and every text in a list."""
    if depth > MAX_DEPTH:
        rejected["too_deep"] += 1
    elif isinstance(value, dict):
        row = {name.lower(): item for name, item in value.items()}
        if isinstance(_first(row, _HOST + _TEXT), str):
            yield row
        else:
            yield from _inside(value.values(), depth, rejected)
    elif isinstance(value, list):
        yield from (item for item in value if isinstance(item, str))
        yield from _inside(value, depth, rejected)


def _inside(values: Iterable[Any], depth: int, rejected: Counter[str]) -> Iterator[Mapping[str, Any] | str]:
    for item in values:
        if isinstance(item, dict | list):
            yield from _rows(item, depth + 1, rejected)


def _proxies(row: Mapping[str, Any] | str, default_protocol: Protocol) -> Iterator[Proxy]:
    if isinstance(row, str):
        yield parse_line(row.strip() or "-", default_protocol)
        return
    host, port = _first(row, _HOST), _first(row, _PORT)
    for protocol in _protocols(row, default_protocol):
        if not isinstance(host, str) or port is None:
            yield parse_line(str(_first(row, _TEXT) or host).strip() or "-", protocol)
        else:
            number = "" if isinstance(port, bool | float) else str(port)
            yield make_proxy(protocol, host, number, _text(_first(row, _USERNAME)), _text(_first(row, _PASSWORD)))


def _protocols(row: Mapping[str, Any], default: Protocol) -> list[Protocol]:
    """The protocols that a row names and we know; the default where it names none."""
    named = _first(row, _PROTOCOL)
    names = named if isinstance(named, list) else str(named or "").replace(",", " ").split()
    known = [SCHEMES[str(name).lower()] for name in names if str(name).lower() in SCHEMES]
    return list(dict.fromkeys(known)) or [default]


def _first(row: Mapping[str, Any], names: Iterable[str]) -> Any:
    return next((row[name] for name in names if row.get(name) not in (None, "")), None)


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise ValueError("a key is there twice")
    return out


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
