"""Rows with named fields (JSON objects, CSV and HTML columns): which name says what. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final

from proxypool.errors import AddressRefused
from proxypool.network.address import Refusal, is_ipv4, ports
from proxypool.proxies.proxy import Protocol, Proxy
from proxypool.sources.formats.line import SCHEMES, make_proxy, parse_line
from proxypool.sources.formats.rows import Rejection


class Role(StrEnum):
    """What a field tells."""

    HOST = "host"
    PORT = "port"
    PROTOCOL = "protocol"
    USERNAME = "username"
    PASSWORD = "password"  # noqa: S105 - a field's name
    LINE = "line"  # the whole proxy in one text


_NAMES: Final[Mapping[Role, tuple[str, ...]]] = {
    Role.HOST: (
        "ip", "host", "ipaddress", "address", "addr", "server", "hostname", "proxyip", "proxyhost", "proxyaddress",
        "proxyserver", "ipaddr", "ipv4", "ipv6", "gateway",
    ),
    Role.PORT: ("port", "proxyport", "portnumber", "ports"),
    Role.PROTOCOL: ("protocols", "protocol", "type", "types", "scheme", "proxytype", "proxyprotocol", "version"),
    Role.USERNAME: ("username", "user", "login", "proxyuser", "proxyusername", "usr"),
    Role.PASSWORD: ("password", "pass", "pwd", "passwd", "proxypass", "proxypassword"),
    Role.LINE: ("proxy", "url", "proxyurl", "ipport", "hostport", "addressport", "endpoint", "uri"),
}  # fmt: skip
_ROLES: Final = {name: role for role, names in _NAMES.items() for name in names}
_LISTED: Final = re.compile(r"[\s,/|;+]+")
_NOISE: Final = re.compile(r"[\s_:./#-]+")


@dataclass(frozen=True, slots=True)
class Layout:
    """The fields of each role, in the row's order."""

    host: tuple[str, ...]
    port: tuple[str, ...]
    protocol: tuple[str, ...]
    username: tuple[str, ...]
    password: tuple[str, ...]
    line: tuple[str, ...]
    plain: tuple[str, str, str] | None  # host, port and protocol ("": none) where there is nothing else to look at


@lru_cache(maxsize=1024)
def layout(names: tuple[str, ...]) -> Layout:
    """What the fields of a row tell; spelling and case of a name do not matter. The rows of a list share it."""
    roles = [(_ROLES.get(_NOISE.sub("", name).lower()), name) for name in names]
    host, port, protocol, username, password, line = (
        tuple(name for role, name in roles if role is wanted) for wanted in Role
    )
    is_plain = len(host) == len(port) == 1 and len(protocol) <= 1 and not (username or password or line)
    plain = (host[0], port[0], protocol[0] if protocol else "") if is_plain else None
    return Layout(host, port, protocol, username, password, line, plain)


def names_a_proxy(row: Mapping[str, Any]) -> bool:
    """Whether an object is a row, not just something around rows: a text stands where an address belongs."""
    at = layout(tuple(row))
    return type(_first(row, at.host)) is str or type(_first(row, at.line)) is str


def proxies(row: Mapping[str, Any], default_protocol: Protocol) -> list[Proxy]:
    """The proxies of one row, one for each protocol that it names; raises AddressRefused."""
    at = layout(tuple(row))
    host, port = _first(row, at.host), _first(row, at.port)
    if type(host) is not str or port is None or (":" in host and not host.startswith("[") and host.count(":") == 1):
        return _of_line(row, at, default_protocol)
    login = _text(_first(row, at.username)), _text(_first(row, at.password))
    host = host.strip()
    if isinstance(port, Mapping):  # {"http": 80, "socks5": 1080}
        return [make_proxy(_protocol(name), host, _number(number), *login) for name, number in port.items()]
    number = _number(port)
    return [
        make_proxy(protocol, host, number, *login)
        for protocol in _protocols(_first(row, at.protocol), default_protocol)
    ]


def plain_proxy(row: Mapping[str, Any], default_protocol: Protocol) -> Proxy | None:
    """The proxy of a row as most lists have them (IPv4, port, at most one protocol, no credentials), None for any other."""
    plain = layout(tuple(row)).plain
    if plain is None:
        return None
    host, port, protocol = row[plain[0]], row[plain[1]], default_protocol
    number = ports().get(port if type(port) is str else _number(port))
    if number is None or type(host) is not str or not is_ipv4(host):
        return None
    if plain[2]:
        named = row[plain[2]]
        if type(named) is list and len(named) == 1:
            named = named[0]
        if type(named) is not str or named not in SCHEMES:
            return None
        protocol = SCHEMES[named]
    return Proxy(protocol, host, number)


def _of_line(row: Mapping[str, Any], at: Layout, default_protocol: Protocol) -> list[Proxy]:
    text = _first(row, at.line) or _first(row, at.host)
    if not isinstance(text, str) or not text.strip():
        raise AddressRefused(Rejection.NO_ADDRESS)
    login = _text(_first(row, at.username)), _text(_first(row, at.password))
    found = [parse_line(text.strip(), one) for one in _protocols(_first(row, at.protocol), default_protocol)]
    if not any(login):
        return found
    return [make_proxy(one.protocol, one.host, str(one.port), *login) if one.username is None else one for one in found]


def _protocols(named: Any, default: Protocol) -> Sequence[Protocol]:
    """The protocols that a row names and we know; the default where it names none."""
    if named is None:
        return (default,)
    names = named if isinstance(named, list) else _LISTED.split(str(named))
    known = [SCHEMES[name] for name in map(str.lower, map(str, names)) if name in SCHEMES]
    return known if len(known) == 1 else list(dict.fromkeys(known)) or (default,)


def _protocol(name: str) -> Protocol:
    if name.lower() not in SCHEMES:
        raise AddressRefused(Refusal.SCHEME)
    return SCHEMES[name.lower()]


def _first(row: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    """The first of these fields that says something."""
    for name in names:
        value = row[name]
        if value is not None and value != "":
            return value
    return None


def _number(value: Any) -> str:
    return "" if isinstance(value, bool | float) else str(value).strip()


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
