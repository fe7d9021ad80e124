"""SOCKS 4, 4a and 5: request bytes, and reply readers with the same signature as the HTTP parser (sans I/O).

Host names are sent to the proxy unresolved, so there are no DNS leaks.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from proxypool.network.address import is_address
from proxypool.network.faults import Fault, TransportError
from proxypool.network.http1 import ProxyCredentials

Reader = Callable[[bytearray, bool], bytes | None]

AUTH_NONE: Final = 0
AUTH_PASSWORD: Final = 2
_NO_ACCEPTABLE_METHOD: Final = 0xFF
_ADDRESS_BYTES: Final = {1: 4, 4: 16}  # IPv4, IPv6; 3 is a name with a length prefix


def socks4_connect_request(host: str, port: int, credentials: ProxyCredentials | None) -> bytes:
    """SOCKS4 for an IPv4 address, SOCKS4a for a name; raises TransportError(UNSUPPORTED) for IPv6."""
    user = credentials.encode()[0] if credentials else b""
    if ":" in host:
        raise TransportError(Fault.UNSUPPORTED)
    if is_address(host):
        return b"\x04\x01" + struct.pack(">H", port) + IPv4Address(host).packed + user + b"\0"
    return b"\x04\x01" + struct.pack(">H", port) + b"\0\0\0\x01" + user + b"\0" + host.encode("ascii") + b"\0"


def check_socks4_reply(reply: bytes) -> None:
    """Raises TransportError unless the reply (8 bytes) is 90: 91 is a refusal, 92 and 93 concern the user."""
    if reply[0] != 0:
        raise TransportError(Fault.PROTOCOL)
    if reply[1] != 90:
        faults = {91: Fault.CONNECT_REFUSED, 92: Fault.CREDENTIALS, 93: Fault.CREDENTIALS}
        raise TransportError(faults.get(reply[1], Fault.PROTOCOL))


def socks5_greeting(credentials: ProxyCredentials | None) -> bytes:
    """Offers no authentication, and username/password if there are credentials."""
    return b"\x05\x02\x00\x02" if credentials else b"\x05\x01\x00"


def parse_socks5_method(reply: bytes, credentials: ProxyCredentials | None) -> int:
    """The authentication method that the proxy chose; raises TransportError."""
    if reply[0] != 5:
        raise TransportError(Fault.PROTOCOL)
    if reply[1] == _NO_ACCEPTABLE_METHOD:
        raise TransportError(Fault.CREDENTIALS)
    if reply[1] not in ((AUTH_NONE, AUTH_PASSWORD) if credentials else (AUTH_NONE,)):
        raise TransportError(Fault.PROTOCOL)
    return reply[1]


def socks5_auth_request(credentials: ProxyCredentials) -> bytes:
    """Username/password request (RFC 1929); raises TransportError if the credentials cannot be sent."""
    username, password = credentials.encode()
    return b"\x01" + bytes((len(username),)) + username + bytes((len(password),)) + password


def check_socks5_auth(reply: bytes) -> None:
    """Raises TransportError unless the reply (2 bytes) accepts the credentials."""
    if reply[0] != 1:
        raise TransportError(Fault.PROTOCOL)
    if reply[1] != 0:
        raise TransportError(Fault.CREDENTIALS)


def socks5_connect_request(host: str, port: int) -> bytes:
    """CONNECT request to an address or an unresolved name."""
    if not is_address(host):
        name = host.encode("ascii")
        address = b"\x03" + bytes((len(name),)) + name
    else:
        address = b"\x04" + IPv6Address(host).packed if ":" in host else b"\x01" + IPv4Address(host).packed
    return b"\x05\x01\x00" + address + struct.pack(">H", port)


def read_exactly(size: int) -> Reader:
    """A reader of `size` bytes."""

    def read(buffer: bytearray, eof: bool) -> bytes | None:
        if len(buffer) >= size:
            data = bytes(buffer[:size])
            del buffer[:size]
            return data
        if eof:
            raise TransportError(Fault.PROTOCOL if buffer else Fault.CLOSED)
        return None

    return read


def read_socks5_reply(buffer: bytearray, eof: bool) -> bytes | None:
    """Reader of the reply to `socks5_connect_request` (variable length); raises TransportError for a refusal."""
    if len(buffer) >= 2:
        if buffer[0] != 5:
            raise TransportError(Fault.PROTOCOL)
        if buffer[1] != 0:
            raise TransportError(Fault.CONNECT_REFUSED if buffer[1] <= 8 else Fault.PROTOCOL, buffer[1])
    if len(buffer) >= 5:
        address_type = buffer[3]
        if buffer[2] != 0 or (address_type != 3 and address_type not in _ADDRESS_BYTES):
            raise TransportError(Fault.PROTOCOL)
        return read_exactly(6 + (1 + buffer[4] if address_type == 3 else _ADDRESS_BYTES[address_type]))(buffer, eof)
    if eof:
        raise TransportError(Fault.PROTOCOL if buffer else Fault.CLOSED)
    return None
