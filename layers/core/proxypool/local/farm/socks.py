"""The proxies' side of SOCKS 4, 4a and 5: one function per step, bytes in, bytes out. Pure."""

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
class SocksTalk:
    """One client's handshake. `step` takes what has arrived; ValueError ends the connection after the last reply."""

    protocol: str
    asks_password: bool
    received: bytearray = field(default_factory=bytearray)
    _stage: str = "hello"

    def step(self, data: bytes) -> tuple[bytes, Request | None]:
        """What to reply now, and the request once it is there; raises SocksRefused."""
        self.received += data
        if self.protocol == "socks4":
            return b"", self._request4()
        replies = b""
        while (said := self._step5()) is not None:
            if isinstance(said, Request):
                return replies, said
            replies += said
        return replies, None

    def _request4(self) -> Request | None:
        got = self.received
        if got and got[0] != 4:
            raise SocksRefused(b"")
        parts = bytes(got[8:]).split(b"\0")
        named = got[4:7] == b"\0\0\0"
        if len(got) < 9 or len(parts) < (3 if named else 2):
            return None
        host = parts[1].decode("ascii") if named else str(IPv4Address(bytes(got[4:8])))
        return Request(host=host, port=int.from_bytes(got[2:4]), first=b"", tunnel=True, granted=GRANTED4)

    def _step5(self) -> bytes | Request | None:
        """One message of the client, answered; None while it is not whole."""
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
        whole = self._take(name_end + 1 + got[name_end])
        if (whole[2:name_end], whole[name_end + 1 :]) != (USER.encode(), PASSWORD.encode()):
            raise SocksRefused(b"\x01\x01")
        self._stage = "request"
        return b"\x01\x00"

    def _take(self, size: int) -> bytes:
        taken = bytes(self.received[:size])
        del self.received[:size]
        return taken


class SocksRefused(ProxyPoolError):
    """The farm's proxy refuses the client; `reply` is sent before the connection is closed."""

    def __init__(self, reply: bytes) -> None:
        super().__init__(reply)
        self.reply = reply
