"""HTTP/1.1 for requests through proxies: small requests, and a strict incremental response parser (sans I/O).

The parser rejects everything that two parsers could interpret differently: two framings, bare line feeds, folded lines,
trailers, bytes after the response. Memory is bounded by the limits.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from proxypool.network.faults import Fault, TransportError

MAX_HEAD_BYTES: Final = 102_400  # all heads of one response, including informational ones
MAX_BODY_BYTES: Final = 65_536
MAX_INFORMATIONAL: Final = 10  # 1xx responses before the final one
MAX_CREDENTIAL_BYTES: Final = 255  # limit of SOCKS5 (RFC 1929), applied to all protocols
_MAX_CHUNK_LINE: Final = 32

_TEXT: Final = rb"[^\x00-\x08\x0a-\x1f\x7f]*"
_NAME: Final = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_HEAD: Final = re.compile(
    rb"HTTP/1\.[01] ([1-5][0-9]{2})(?: " + _TEXT + rb")?((?:\r\n" + _NAME + b":" + _TEXT + rb")*)"
)
_FIELD: Final = re.compile(r"\r\n([^:]+):[ \t]*([^\r\n]*)")
_LENGTH: Final = re.compile(r"[0-9]{1,12}")
_CHUNK: Final = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]*)?")
_FORBIDDEN_IN_TARGET: Final = re.compile(r"[\x00-\x20\x7f]")  # in a request target or an authority
_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_FORBIDDEN_IN_VALUE: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")  # in a header's value
_FORBIDDEN_IN_CREDENTIALS: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")  # in credentials


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyCredentials:
    """User name and password for the proxy."""

    username: str
    password: str = field(repr=False)

    def encode(self) -> tuple[bytes, bytes]:
        """(username, password) in UTF-8; raises TransportError(CREDENTIALS) for control characters or more than 255 bytes."""
        parts = self.username.encode(), self.password.encode()
        if (
            _FORBIDDEN_IN_CREDENTIALS.search(self.username + self.password)
            or max(map(len, parts)) > MAX_CREDENTIAL_BYTES
        ):
            raise TransportError(Fault.CREDENTIALS)
        return parts

    def authorization_header(self) -> str:
        """The Proxy-Authorization line (Basic, RFC 7617); raises TransportError(CREDENTIALS), also for a colon in the user name."""
        username, password = self.encode()
        if b":" in username:
            raise TransportError(Fault.CREDENTIALS)
        return f"Proxy-Authorization: Basic {base64.b64encode(username + b':' + password).decode()}\r\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """A response: status 200–599, lower-case header names, the body without its framing."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


def build_get(target: str, host: str, *, user_agent: str, credentials: ProxyCredentials | None = None) -> bytes:
    """Encodes a GET; `target` is a path, or an absolute URL for an HTTP proxy. Only then pass `credentials`: they are
    the proxy's.
    """
    return _encode_request(
        f"GET {target}", host, f"User-Agent: {user_agent}\r\nAccept: */*\r\nConnection: close\r\n", credentials
    )


def build_connect(authority: str, *, credentials: ProxyCredentials | None = None) -> bytes:
    """Encodes a CONNECT to host:port; the host name is sent to the proxy unresolved."""
    return _encode_request(f"CONNECT {authority}", authority, "", credentials)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """A request without host and target. `headers` may come from users: `encode` validates them."""

    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    def encode(self, target: str, host: str, *, credentials: ProxyCredentials | None = None) -> bytes:
        """The request's bytes; `target` and `credentials` as in `build_get`. Raises ValueError for an invalid header."""
        if any(not _TOKEN.fullmatch(name) or _FORBIDDEN_IN_VALUE.search(value) for name, value in self.headers.items()):
            raise ValueError("a header name must be a token, a value must not contain control characters")
        lines = [f"{name}: {value}\r\n" for name, value in self.headers.items()]
        if self.body or self.method in ("POST", "PUT", "PATCH"):
            lines.append(f"Content-Length: {len(self.body)}\r\n")
        return (
            _encode_request(f"{self.method} {target}", host, "".join(lines) + "Connection: close\r\n", credentials)
            + self.body
        )


class ResponseReader:
    """Parses one response from a growing buffer; call it when data arrived and when the connection has ended.

    `no_body`: the response has none, regardless of its headers (CONNECT, HEAD). The response's bytes are removed from
    the buffer; bytes that remain after the end are not part of it.
    """

    def __init__(self, *, no_body: bool = False, max_body_bytes: int = MAX_BODY_BYTES) -> None:
        self._no_body, self._max_body_bytes = no_body, max_body_bytes
        self._informational = 0
        self._head_bytes = 0
        self._searched = 0  # no end of a head before this offset
        self._head: _Head | None = None  # of the final response
        self._body = bytearray()
        self._chunk_size: int | None = None  # of the current chunk

    def __call__(self, buffer: bytearray, eof: bool) -> Response | None:
        """The response, or None while it is incomplete; raises TransportError."""
        while self._head is None:
            if not self._read_head(buffer, eof):
                return None
        head, body = self._head, self._read_body(self._head, buffer, eof)
        return None if body is None else Response(status=head.status, headers=head.headers, body=body)

    def _read_head(self, buffer: bytearray, eof: bool) -> bool:
        """Removes one head from the buffer; False if it is incomplete."""
        end = buffer.find(b"\r\n\r\n", self._searched)
        if self._head_bytes + (len(buffer) if end < 0 else end) > MAX_HEAD_BYTES:
            raise TransportError(Fault.PROTOCOL)
        if end < 0:
            self._searched = max(0, len(buffer) - 3)
            if eof:
                raise TransportError(Fault.PROTOCOL if buffer or self._informational else Fault.CLOSED)
            return False
        head = _parse_head(bytes(buffer[:end]))
        del buffer[: end + 4]
        self._searched, self._head_bytes = 0, self._head_bytes + end + 4
        if head.status >= 200:
            self._head = head
        else:
            self._informational += 1
            if head.status == 101 or self._informational > MAX_INFORMATIONAL:
                raise TransportError(Fault.PROTOCOL)
        return True

    def _read_body(self, head: _Head, buffer: bytearray, eof: bool) -> bytes | None:
        if self._no_body or head.status in (204, 304):
            return b""
        if head.chunked:
            return self._read_chunks(buffer, eof)
        if head.length is None:
            if len(buffer) > self._max_body_bytes:
                raise TransportError(Fault.TOO_LARGE)
            return _pop_bytes(buffer, len(buffer)) if eof else None
        if head.length > self._max_body_bytes:
            raise TransportError(Fault.TOO_LARGE)
        if len(buffer) >= head.length:
            return _pop_bytes(buffer, head.length)
        if eof:
            raise TransportError(Fault.PROTOCOL)
        return None

    def _read_chunks(self, buffer: bytearray, eof: bool) -> bytes | None:
        while (size := self._next_chunk(buffer)) is not None and len(buffer) >= size + 2:
            self._body += _pop_bytes(buffer, size)
            if _pop_bytes(buffer, 2) != b"\r\n":  # after the last chunk: trailers are rejected
                raise TransportError(Fault.PROTOCOL)
            if size == 0:
                return bytes(self._body)
            self._chunk_size = None
        if eof:
            raise TransportError(Fault.PROTOCOL)
        return None

    def _next_chunk(self, buffer: bytearray) -> int | None:
        """The size of the next chunk; None while its line is incomplete."""
        if self._chunk_size is None:
            end = buffer.find(b"\r\n", 0, _MAX_CHUNK_LINE + 2)
            if end < 0:
                if len(buffer) >= _MAX_CHUNK_LINE + 2:
                    raise TransportError(Fault.PROTOCOL)
                return None
            line = _CHUNK.fullmatch(_pop_bytes(buffer, end + 2)[:end])
            if line is None:
                raise TransportError(Fault.PROTOCOL)
            self._chunk_size = int(line[1], 16)
            if len(self._body) + self._chunk_size > self._max_body_bytes:
                raise TransportError(Fault.TOO_LARGE)
        return self._chunk_size


class _Head(NamedTuple):
    status: int
    headers: tuple[tuple[str, str], ...]
    chunked: bool
    length: int | None


def _parse_head(raw: bytes) -> _Head:
    """Strict: rejects bare line feeds, folded lines, control characters and ambiguous framing."""
    match = _HEAD.fullmatch(raw)
    if match is None:
        raise TransportError(Fault.PROTOCOL)
    fields = _FIELD.findall(match[2].decode("latin-1"))
    headers = tuple([(name.lower(), value.rstrip(" \t")) for name, value in fields])
    length: int | None = None
    chunked = False
    for name, value in headers:
        if name == "content-length":
            if not _LENGTH.fullmatch(value) or length not in (None, int(value)):
                raise TransportError(Fault.PROTOCOL)
            length = int(value)
        elif name == "transfer-encoding":
            if value.lower() != "chunked" or chunked:
                raise TransportError(Fault.PROTOCOL)
            chunked = True
    if chunked and length is not None:
        raise TransportError(Fault.PROTOCOL)
    return _Head(int(match[1]), headers, chunked, length)


def _encode_request(request_line: str, host: str, extra_headers: str, credentials: ProxyCredentials | None) -> bytes:
    if _FORBIDDEN_IN_TARGET.search(request_line.partition(" ")[2] + host):
        raise ValueError("target and host must not contain white space or control characters")
    return f"{request_line} HTTP/1.1\r\nHost: {host}\r\n{credentials.authorization_header() if credentials else ''}{extra_headers}\r\n".encode()


def _pop_bytes(buffer: bytearray, size: int) -> bytes:
    data = bytes(buffer[:size])
    del buffer[:size]
    return data
