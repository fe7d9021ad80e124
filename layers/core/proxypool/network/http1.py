"""HTTP/1.1 as the pool speaks it: small requests, and a strict reader of answers that takes them in pieces of any size.

The reader refuses whatever two readers could read differently: two framings, a bare line feed, a folded line, trailers,
bytes behind the answer. It does no input or output, and holds no more than the bounds.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from proxypool.network.faults import Fault, WireError

MAX_HEAD_BYTES: Final = 102_400  # of an answer's heads in all, the informational ones included
MAX_BODY_BYTES: Final = 65_536
MAX_INFORMATIONAL: Final = 10  # 1xx answers before the real one
MAX_LOGIN_BYTES: Final = 255  # what SOCKS5 can carry (RFC 1929), held for all
_MAX_CHUNK_LINE: Final = 32

_TEXT: Final = rb"[^\x00-\x08\x0a-\x1f\x7f]*"
_NAME: Final = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_HEAD: Final = re.compile(
    rb"HTTP/1\.[01] ([1-5][0-9]{2})(?: " + _TEXT + rb")?((?:\r\n" + _NAME + b":" + _TEXT + rb")*)"
)
_FIELD: Final = re.compile(r"\r\n([^:]+):[ \t]*([^\r\n]*)")
_LENGTH: Final = re.compile(r"[0-9]{1,12}")
_CHUNK: Final = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]*)?")
_UNSENDABLE: Final = re.compile(r"[\x00-\x20\x7f]")  # in a target or an authority
_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_BREAKS: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")  # in a header's value
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")  # in a login


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """User name and password for the proxy. `vetted` refuses what must not be sent."""

    username: str
    password: str = field(repr=False)

    def vetted(self) -> tuple[bytes, bytes]:
        """Both as UTF-8, 255 bytes each at most, without control characters; raises WireError(CREDENTIALS)."""
        parts = self.username.encode(), self.password.encode()
        if _CONTROL.search(self.username + self.password) or max(map(len, parts)) > MAX_LOGIN_BYTES:
            raise WireError(Fault.CREDENTIALS)
        return parts

    def header(self) -> str:
        """The Proxy-Authorization line (Basic, RFC 7617: no colon in the user name)."""
        username, password = self.vetted()
        if b":" in username:
            raise WireError(Fault.CREDENTIALS)
        return f"Proxy-Authorization: Basic {base64.b64encode(username + b':' + password).decode()}\r\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """One answer: status 200–599, header names in lower case, the body after its framing was checked."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


def get(target: str, host: str, *, agent: str, login: Login | None = None) -> bytes:
    """A GET; `target` is a path, or a whole URL where a proxy reads it. The credentials go to that proxy alone."""
    return _request(f"GET {target}", host, f"User-Agent: {agent}\r\nAccept: */*\r\nConnection: close\r\n", login)


def connect_to(authority: str, *, login: Login | None = None) -> bytes:
    """A CONNECT for host:port; the name goes to the proxy unresolved."""
    return _request(f"CONNECT {authority}", authority, "", login)


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A request without its way: header names and values are vetted when it is written, since they come from outside."""

    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    def written(self, target: str, host: str, *, login: Login | None = None) -> bytes:
        """Its bytes; `target` and `login` as in `get`. Raises ValueError for what would break a line."""
        if any(not _TOKEN.fullmatch(name) or _BREAKS.search(value) for name, value in self.headers.items()):
            raise ValueError("a header's name is a token, and its value has no control characters")
        lines = [f"{name}: {value}\r\n" for name, value in self.headers.items()]
        if self.body or self.method in ("POST", "PUT", "PATCH"):
            lines.append(f"Content-Length: {len(self.body)}\r\n")
        return _request(f"{self.method} {target}", host, "".join(lines) + "Connection: close\r\n", login) + self.body


class AnswerReader:
    """Reads one answer from a buffer that grows; call it whenever there is more, or when the connection has ended.

    `bodiless`: the answer has none whatever its headers say (CONNECT). The bytes that belong to the answer are taken out
    of the buffer; what is left after the end was not asked for.
    """

    def __init__(self, *, bodiless: bool = False, max_body_bytes: int = MAX_BODY_BYTES) -> None:
        self._bodiless, self._max_body_bytes = bodiless, max_body_bytes
        self._informational = 0
        self._head_bytes = 0
        self._searched = 0  # up to here the buffer holds no end of a head
        self._head: _Head | None = None  # of the answer itself
        self._body = bytearray()
        self._chunk_size: int | None = None  # of the chunk at hand

    def __call__(self, buffer: bytearray, ended: bool) -> Response | None:
        """The answer, or None while it is not whole; raises WireError."""
        while self._head is None:
            if not self._read_head(buffer, ended):
                return None
        head, body = self._head, self._read_body(self._head, buffer, ended)
        return None if body is None else Response(status=head.status, headers=head.headers, body=body)

    def _read_head(self, buffer: bytearray, ended: bool) -> bool:
        """Takes one head; False where there is none yet."""
        end = buffer.find(b"\r\n\r\n", self._searched)
        if self._head_bytes + (len(buffer) if end < 0 else end) > MAX_HEAD_BYTES:
            raise WireError(Fault.PROTOCOL)
        if end < 0:
            self._searched = max(0, len(buffer) - 3)
            if ended:
                raise WireError(Fault.PROTOCOL if buffer or self._informational else Fault.CLOSED)
            return False
        head = _parse_head(bytes(buffer[:end]))
        del buffer[: end + 4]
        self._searched, self._head_bytes = 0, self._head_bytes + end + 4
        if head.status >= 200:
            self._head = head
        else:
            self._informational += 1
            if head.status == 101 or self._informational > MAX_INFORMATIONAL:
                raise WireError(Fault.PROTOCOL)
        return True

    def _read_body(self, head: _Head, buffer: bytearray, ended: bool) -> bytes | None:
        if self._bodiless or head.status in (204, 304):
            return b""
        if head.chunked:
            return self._read_chunks(buffer, ended)
        if head.length is None:
            if len(buffer) > self._max_body_bytes:
                raise WireError(Fault.TOO_LARGE)
            return _take(buffer, len(buffer)) if ended else None
        if head.length > self._max_body_bytes:
            raise WireError(Fault.TOO_LARGE)
        if len(buffer) >= head.length:
            return _take(buffer, head.length)
        if ended:
            raise WireError(Fault.PROTOCOL)
        return None

    def _read_chunks(self, buffer: bytearray, ended: bool) -> bytes | None:
        while (size := self._next_chunk(buffer)) is not None and len(buffer) >= size + 2:
            self._body += _take(buffer, size)
            if _take(buffer, 2) != b"\r\n":  # after the last chunk: trailers, which are refused
                raise WireError(Fault.PROTOCOL)
            if size == 0:
                return bytes(self._body)
            self._chunk_size = None
        if ended:
            raise WireError(Fault.PROTOCOL)
        return None

    def _next_chunk(self, buffer: bytearray) -> int | None:
        """The size that the chunk's line says; None while the line is not whole."""
        if self._chunk_size is None:
            end = buffer.find(b"\r\n", 0, _MAX_CHUNK_LINE + 2)
            if end < 0:
                if len(buffer) >= _MAX_CHUNK_LINE + 2:
                    raise WireError(Fault.PROTOCOL)
                return None
            line = _CHUNK.fullmatch(_take(buffer, end + 2)[:end])
            if line is None:
                raise WireError(Fault.PROTOCOL)
            self._chunk_size = int(line[1], 16)
            if len(self._body) + self._chunk_size > self._max_body_bytes:
                raise WireError(Fault.TOO_LARGE)
        return self._chunk_size


class _Head(NamedTuple):
    status: int
    headers: tuple[tuple[str, str], ...]
    chunked: bool
    length: int | None


def _parse_head(raw: bytes) -> _Head:
    """Strict: no bare line feed, no folded line, no control character, one framing."""
    match = _HEAD.fullmatch(raw)
    if match is None:
        raise WireError(Fault.PROTOCOL)
    fields = _FIELD.findall(match[2].decode("latin-1"))
    headers = tuple([(name.lower(), value.rstrip(" \t")) for name, value in fields])
    length: int | None = None
    chunked = False
    for name, value in headers:
        if name == "content-length":
            if not _LENGTH.fullmatch(value) or length not in (None, int(value)):
                raise WireError(Fault.PROTOCOL)
            length = int(value)
        elif name == "transfer-encoding":
            if value.lower() != "chunked" or chunked:
                raise WireError(Fault.PROTOCOL)
            chunked = True
    if chunked and length is not None:
        raise WireError(Fault.PROTOCOL)
    return _Head(int(match[1]), headers, chunked, length)


def _request(line: str, host: str, more: str, login: Login | None) -> bytes:
    if _UNSENDABLE.search(line.partition(" ")[2] + host):
        raise ValueError("a request's target and host have no white space and no control characters")
    return f"{line} HTTP/1.1\r\nHost: {host}\r\n{login.header() if login else ''}{more}\r\n".encode()


def _take(buffer: bytearray, size: int) -> bytes:
    taken = bytes(buffer[:size])
    del buffer[:size]
    return taken
