"""One connection to Redis: RESP2 on a socket, a deadline per call, no retry, no vendor's library.

Every import adds to the cold start of the lease function, and every layer to the time of a call. Of a client library's
features a pool needs one: one command at a time, to the node that holds its slot.
"""

from __future__ import annotations

import select
import socket
import time
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from proxypool.errors import ProxyPoolError

CONNECT_SECONDS: Final = 0.8  # TLS and AUTH included
TIMEOUT_SECONDS: Final = 1.0  # from a command to its complete answer
DEFAULT_PORT: Final = 6379
CHUNK_BYTES: Final = 65_536


class ErrorReply(ProxyPoolError):
    """An error answer of the server: its `code` (OOM, READONLY, NOSCRIPT, …) and the rest of the text."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.code, _, self.rest = text.partition(" ")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Address:
    """A server's address and credentials."""

    host: str
    port: int
    tls: bool = False
    username: str = ""
    password: str = ""

    @classmethod
    def of(cls, url: str) -> Address:
        """The parts of a redis:// or rediss:// URL."""
        parts = urlsplit(url)
        return cls(
            host=parts.hostname or "localhost",
            port=parts.port or DEFAULT_PORT,
            tls=parts.scheme == "rediss",
            username=unquote(parts.username or ""),
            password=unquote(parts.password or ""),
        )


class Connection:
    """An open connection. After any error except ErrorReply it must be closed."""

    def __init__(self, address: Address) -> None:
        """Connects and authenticates; raises OSError (TimeoutError included) or ErrorReply."""
        self._deadline = time.monotonic() + CONNECT_SECONDS
        self._unread = bytearray()
        self._socket = socket.create_connection((address.host, address.port), timeout=CONNECT_SECONDS)
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if address.tls:
                import ssl  # a fifth of the cold start, and not needed without TLS

                self._socket.settimeout(self._left())
                self._socket = ssl.create_default_context().wrap_socket(self._socket, server_hostname=address.host)
            if address.password:
                self._exchange("AUTH", *filter(None, (address.username, address.password)))
        except BaseException:
            self.close()
            raise

    def __del__(self) -> None:
        if hasattr(self, "_socket"):
            self.close()

    @property
    def is_stale(self) -> bool:
        """Whether the server has closed the connection, or sent unexpected data, since the last call."""
        return bool(select.select([self._socket], [], [], 0)[0])

    def call(self, *args: str | int) -> Any:
        """The answer to one command: text, int, None or a list of these; raises ErrorReply or OSError."""
        self._deadline = time.monotonic() + TIMEOUT_SECONDS
        return self._exchange(*args)

    def close(self) -> None:
        """Closes the connection."""
        self._socket.close()

    def _exchange(self, *args: str | int) -> Any:
        parts = [b"*%d\r\n" % len(args)]
        for arg in args:
            data = str(arg).encode()
            parts.append(b"$%d\r\n%b\r\n" % (len(data), data))
        self._socket.settimeout(self._left())
        self._socket.sendall(b"".join(parts))
        return self._answer()

    def _left(self) -> float:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("no answer in time")
        return left

    def _answer(self) -> Any:
        line = self._line()
        kind, rest = line[:1], line[1:]
        if kind == b"$":
            return None if rest == b"-1" else self._exactly(int(rest)).decode()
        if kind == b":":
            return int(rest)
        if kind == b"*":
            return None if rest == b"-1" else self._list(int(rest))
        if kind == b"+":
            return rest.decode()
        if kind == b"-":
            raise ErrorReply(rest.decode(errors="replace"))
        raise OSError("not an answer of Redis")

    def _list(self, size: int) -> list[Any]:
        """The items of an array. All are read even if one is an error, so that nothing remains on the connection."""
        out: list[Any] = []
        refused: ErrorReply | None = None
        for _ in range(size):
            try:
                out.append(self._answer())
            except ErrorReply as error:
                refused = error
        if refused:
            raise refused
        return out

    def _line(self) -> bytes:
        while (end := self._unread.find(b"\r\n")) < 0:
            self._receive()
        line = bytes(self._unread[:end])
        del self._unread[: end + 2]
        return line

    def _exactly(self, size: int) -> bytes:
        while len(self._unread) < size + 2:
            self._receive()
        data = bytes(self._unread[:size])
        del self._unread[: size + 2]
        return data

    def _receive(self) -> None:
        self._socket.settimeout(self._left())
        data = self._socket.recv(CHUNK_BYTES)
        if not data:
            raise ConnectionError("the server closed the connection")
        self._unread += data
