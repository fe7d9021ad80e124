"""Rows with named fields (JSON objects, CSV and HTML columns): maps field names to roles. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final

from proxypool.errors import AddressRefused
from proxypool.network.address import Refusal, is_ipv4, permitted_ports
from proxypool.proxies.proxy import Protocol, Proxy
from proxypool.sources.formats.line import SCHEMES, make_proxy, parse_line
from proxypool.sources.formats.rows import Rejection


class FieldRole(StrEnum):
    """Meaning of a field."""

    HOST = "host"
    PORT = "port"
    PROTOCOL = "protocol"
    USERNAME = "username"
    PASSWORD = "password"  # noqa: S105 - a field's name
    LINE = "line"  # the whole proxy in one string


_NAMES: Final[Mapping[FieldRole, tuple[str, ...]]] = {
    FieldRole.HOST: (
        "ip", "host", "ipaddress", "address", "addr", "server", "hostname", "proxyip", "proxyhost", "proxyaddress",
        "proxyserver", "ipaddr", "ipv4", "ipv6", "gateway",
    ),
    FieldRole.PORT: ("port", "proxyport", "portnumber", "ports"),
    FieldRole.PROTOCOL: ("protocols", "protocol", "type", "types", "scheme", "proxytype", "proxyprotocol", "version"),
    FieldRole.USERNAME: ("username", "user", "login", "proxyuser", "proxyusername", "usr"),
    FieldRole.PASSWORD: ("password", "pass", "pwd", "passwd", "proxypass", "proxypassword"),
    FieldRole.LINE: ("proxy", "url", "proxyurl", "ipport", "hostport", "addressport", "endpoint", "uri"),
}  # fmt: skip
_ROLES: Final = {name: role for role, names in _NAMES.items() for name in names}
_PROTOCOL_SEPARATORS: Final = re.compile(r"[\s,/|;+]+")
_NAME_SEPARATORS: Final = re.compile(r"[\s_:./#-]+")


@dataclass(frozen=True, slots=True)
class Layout:
    """The field names of each role, in the row's order."""

    host: tuple[str, ...]
    port: tuple[str, ...]
    protocol: tuple[str, ...]
    username: tuple[str, ...]
    password: tuple[str, ...]
    line: tuple[str, ...]
    plain: tuple[str, str, str] | None  # host, port, protocol ("": none) if no other field has a role


@lru_cache(maxsize=1024)
def layout(names: tuple[str, ...]) -> Layout:
    """The layout of a row with these field names; case and separators in a name are ignored. Cached: rows of a list
    share it.
    """
    roles = [(_ROLES.get(_NAME_SEPARATORS.sub("", name).lower()), name) for name in names]
    host, port, protocol, username, password, line = (
        tuple(name for role, name in roles if role is expected) for expected in FieldRole
    )
    is_plain = len(host) == len(port) == 1 and len(protocol) <= 1 and not (username or password or line)
    plain = (host[0], port[0], protocol[0] if protocol else "") if is_plain else None
    return Layout(host, port, protocol, username, password, line, plain)


def has_address(row: Mapping[str, Any]) -> bool:
    """True if an object is a row rather than a container of rows: it has a string in an address field."""
    fields = layout(tuple(row))
    return type(_first(row, fields.host)) is str or type(_first(row, fields.line)) is str


def parse_row(row: Mapping[str, Any], default_protocol: Protocol) -> list[Proxy]:
    """The proxies of one row, one per protocol; raises AddressRefused."""
    fields = layout(tuple(row))
    host, port = _first(row, fields.host), _first(row, fields.port)
    if type(host) is not str or port is None or (":" in host and not host.startswith("[") and host.count(":") == 1):
        return _proxies_from_line(row, fields, default_protocol)
    credentials = _text(_first(row, fields.username)), _text(_first(row, fields.password))
    host = host.strip()
    if isinstance(port, Mapping):  # {"http": 80, "socks5": 1080}
        return [make_proxy(_protocol(name), host, _number(number), *credentials) for name, number in port.items()]
    number = _number(port)
    return [
        make_proxy(protocol, host, number, *credentials)
        for protocol in _protocols(_first(row, fields.protocol), default_protocol)
    ]


def parse_plain_row(row: Mapping[str, Any], default_protocol: Protocol) -> Proxy | None:
    """The proxy of the most common layout (IPv4, port, at most one protocol, no credentials); None for any other."""
    plain = layout(tuple(row)).plain
    if plain is None:
        return None
    host, port, protocol = row[plain[0]], row[plain[1]], default_protocol
    number = permitted_ports().get(port if type(port) is str else _number(port))
    if number is None or type(host) is not str or not is_ipv4(host):
        return None
    if plain[2]:
        name = row[plain[2]]
        if type(name) is list and len(name) == 1:
            name = name[0]
        if type(name) is not str or name not in SCHEMES:
            return None
        protocol = SCHEMES[name]
    return Proxy(protocol, host, number)


def _proxies_from_line(row: Mapping[str, Any], fields: Layout, default_protocol: Protocol) -> list[Proxy]:
    text = _first(row, fields.line) or _first(row, fields.host)
    if not isinstance(text, str) or not text.strip():
        raise AddressRefused(Rejection.NO_ADDRESS)
    credentials = _text(_first(row, fields.username)), _text(_first(row, fields.password))
    parsed = [parse_line(text.strip(), item) for item in _protocols(_first(row, fields.protocol), default_protocol)]
    if not any(credentials):
        return parsed
    return [
        make_proxy(item.protocol, item.host, str(item.port), *credentials) if item.username is None else item
        for item in parsed
    ]


def _protocols(value: Any, default: Protocol) -> Sequence[Protocol]:
    """The known protocols in a field; the default if there is none."""
    if value is None:
        return (default,)
    names = value if isinstance(value, list) else _PROTOCOL_SEPARATORS.split(str(value))
    known = [SCHEMES[name] for name in map(str.lower, map(str, names)) if name in SCHEMES]
    return known if len(known) == 1 else list(dict.fromkeys(known)) or (default,)


def _protocol(name: str) -> Protocol:
    if name.lower() not in SCHEMES:
        raise AddressRefused(Refusal.SCHEME)
    return SCHEMES[name.lower()]


def _first(row: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    """The first of these fields that is not empty."""
    for name in names:
        value = row[name]
        if value is not None and value != "":
            return value
    return None


def _number(value: Any) -> str:
    return "" if isinstance(value, bool | float) else str(value).strip()


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
