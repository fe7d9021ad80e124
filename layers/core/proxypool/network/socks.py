"""SOCKS 4, 4a and 5 as bytes: what a client says, and readers of the answers (of the same shape as the HTTP one's).

Names go to the proxy unresolved; nothing is looked up here, so that nothing leaks by DNS.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from proxypool.network.address import is_address
from proxypool.network.faults import Fault, WireError
from proxypool.network.http1 import Login

Reader = Callable[[bytearray, bool], bytes | None]

NO_LOGIN: Final = 0
BY_PASSWORD: Final = 2
_REFUSES_ALL: Final = 0xFF
_ADDRESS_BYTES: Final = {1: 4, 4: 16}  # IPv4, IPv6; 3 is a name, led by its length


def connect4(host: str, port: int, login: Login | None) -> bytes:
    """SOCKS4 for an IPv4 address, SOCKS4a for a name; raises WireError(UNSUPPORTED) for IPv6: it has no words for it."""
    user = login.vetted()[0] if login else b""
    if ":" in host:
        raise WireError(Fault.UNSUPPORTED)
    if is_address(host):
        return b"\x04\x01" + struct.pack(">H", port) + IPv4Address(host).packed + user + b"\0"
    return b"\x04\x01" + struct.pack(">H", port) + b"\0\0\0\x01" + user + b"\0" + host.encode("ascii") + b"\0"


def check4(reply: bytes) -> None:
    """Raises WireError unless the eight bytes grant the way: 91 is a refusal, 92 and 93 are about the user."""
    if reply[0] != 0:
        raise WireError(Fault.PROTOCOL)
    if reply[1] != 90:
        faults = {91: Fault.CONNECT_REFUSED, 92: Fault.CREDENTIALS, 93: Fault.CREDENTIALS}
        raise WireError(faults.get(reply[1], Fault.PROTOCOL))


def greeting5(login: Login | None) -> bytes:
    """Offers what we can do: no login, and the password if there is one."""
    return b"\x05\x02\x00\x02" if login else b"\x05\x01\x00"


def method5(reply: bytes, login: Login | None) -> int:
    """The method that the proxy chose of those; raises WireError."""
    if reply[0] != 5:
        raise WireError(Fault.PROTOCOL)
    if reply[1] == _REFUSES_ALL:
        raise WireError(Fault.CREDENTIALS)
    if reply[1] not in ((NO_LOGIN, BY_PASSWORD) if login else (NO_LOGIN,)):
        raise WireError(Fault.PROTOCOL)
    return reply[1]


def login5(login: Login) -> bytes:
    """User name and password (RFC 1929); raises WireError where they cannot be sent."""
    username, password = login.vetted()
    return b"\x01" + bytes((len(username),)) + username + bytes((len(password),)) + password


def check_login5(reply: bytes) -> None:
    """Raises WireError unless the two bytes accept the login."""
    if reply[0] != 1:
        raise WireError(Fault.PROTOCOL)
    if reply[1] != 0:
        raise WireError(Fault.CREDENTIALS)


def connect5(host: str, port: int) -> bytes:
    """The request for a tunnel, by address or by unresolved name."""
    if not is_address(host):
        name = host.encode("ascii")
        place = b"\x03" + bytes((len(name),)) + name
    else:
        place = b"\x04" + IPv6Address(host).packed if ":" in host else b"\x01" + IPv4Address(host).packed
    return b"\x05\x01\x00" + place + struct.pack(">H", port)


def exactly(size: int) -> Reader:
    """A reader of so many bytes."""

    def read(buffer: bytearray, ended: bool) -> bytes | None:
        if len(buffer) >= size:
            taken = bytes(buffer[:size])
            del buffer[:size]
            return taken
        if ended:
            raise WireError(Fault.PROTOCOL if buffer else Fault.CLOSED)
        return None

    return read


def reply5(buffer: bytearray, ended: bool) -> bytes | None:
    """A reader of the answer to `connect5`, whose length depends on what is in it; raises WireError where it is a no."""
    if len(buffer) >= 2:
        if buffer[0] != 5:
            raise WireError(Fault.PROTOCOL)
        if buffer[1] != 0:
            raise WireError(Fault.CONNECT_REFUSED if buffer[1] <= 8 else Fault.PROTOCOL, buffer[1])
    if len(buffer) >= 5:
        kind = buffer[3]
        if buffer[2] != 0 or (kind != 3 and kind not in _ADDRESS_BYTES):
            raise WireError(Fault.PROTOCOL)
        return exactly(6 + (1 + buffer[4] if kind == 3 else _ADDRESS_BYTES[kind]))(buffer, ended)
    if ended:
        raise WireError(Fault.PROTOCOL if buffer else Fault.CLOSED)
    return None
