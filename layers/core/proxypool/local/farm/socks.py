"""The server's side of SOCKS 4, 4a and 5. Pure: bytes in, bytes out."""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import IPv4Address

from proxypool.errors import ProxyPoolError
from proxypool.local.farm.behavior import Request
from proxypool.local.farm.kinds import PASSWORD, USER

GRANTED4 = b"\x00\x5a\x00\x00\x00\x00\x00\x00"
GRANTED5 = b"\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00"
REFUSED = {"socks4": b"\x00\x5b\x00\x00\x00\x00\x00\x00", "socks5": b"\x05\x05\x00\x01\x00\x00\x00\x00\x00\x00"}


@dataclass(slots=True)
class SocksHandshake:
    """The handshake of one client."""

    protocol: str
    asks_password: bool
    received: bytearray = field(default_factory=bytearray)
    _stage: str = "hello"

    def step(self, data: bytes) -> tuple[bytes, Request | None]:
        """Takes received bytes; returns the reply, and the request once it is complete. Raises SocksRefused, or ValueError."""
        self.received += data
        if self.protocol == "socks4":
            return b"", self._request4()
        replies = b""
        while (result := self._step5()) is not None:
            if isinstance(result, Request):
                return replies, result
            replies += result
        return replies, None

    def _request4(self) -> Request | None:
        got = self.received
        if got and got[0] != 4:
            raise SocksRefused(b"")
        parts = bytes(got[8:]).split(b"\0")
        has_name = got[4:7] == b"\0\0\0"
        if len(got) < 9 or len(parts) < (3 if has_name else 2):
            return None
        host = parts[1].decode("ascii") if has_name else str(IPv4Address(bytes(got[4:8])))
        return Request(host=host, port=int.from_bytes(got[2:4]), first=b"", tunnel=True, granted=GRANTED4)

    def _step5(self) -> bytes | Request | None:
        """The reply to the client's next message, or its request; None while the message is incomplete."""
        got = self.received
        if len(got) < 2:
            return None
        if self._stage == "hello":
            return self._hello5()
        if self._stage == "login":
            return self._login5()
        size = 10 if len(got) > 3 and got[3] == 1 else 7 + (got[4] if len(got) > 4 else 255)
        if len(got) < size:
            return None
        host = str(IPv4Address(bytes(got[4:8]))) if got[3] == 1 else got[5 : 5 + got[4]].decode("ascii")
        port = int.from_bytes(got[size - 2 : size])
        return Request(host=host, port=port, first=bytes(got[size:]), tunnel=True, granted=GRANTED5)

    def _hello5(self) -> bytes | None:
        got, method = self.received, 2 if self.asks_password else 0
        if got[0] != 5:
            raise SocksRefused(b"")
        if len(got) < 2 + got[1]:
            return None
        offered = bytes(self._take(2 + got[1]))[2:]
        if method not in offered:
            raise SocksRefused(b"\x05\xff")
        self._stage = "login" if self.asks_password else "request"
        return bytes((5, method))

    def _login5(self) -> bytes | None:
        got = self.received
        if len(got) < 3 + got[1] or len(got) < 3 + got[1] + got[2 + got[1]]:
            return None
        name_end = 2 + got[1]
        message = self._take(name_end + 1 + got[name_end])
        if (message[2:name_end], message[name_end + 1 :]) != (USER.encode(), PASSWORD.encode()):
            raise SocksRefused(b"\x01\x01")
        self._stage = "request"
        return b"\x01\x00"

    def _take(self, size: int) -> bytes:
        taken = bytes(self.received[:size])
        del self.received[:size]
        return taken


class SocksRefused(ProxyPoolError):
    """The proxy rejects the client; `reply` is sent before the connection is closed."""

    def __init__(self, reply: bytes) -> None:
        super().__init__(reply)
        self.reply = reply
