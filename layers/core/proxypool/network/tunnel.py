"""The way through a proxy: TCP to the vetted address, absolute-form GET, CONNECT and TLS; strict small HTTP/1.1.

No redirect is followed, no cookie kept, no connection reused, and nothing ever falls back to a direct connection.
One asyncio.Protocol per connection instead of streams: a check costs little more than its bytes.
"""

from __future__ import annotations

import asyncio
import base64
import errno
import ssl
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, cast

from proxypool.errors import ProxyPoolError

MAX_HEAD_BYTES: Final = 16_384
MAX_BODY_BYTES: Final = 65_536
MAX_INFORMATIONAL: Final = 10  # 1xx answers before the real one
_NO_ROUTE: Final = (errno.ENETUNREACH, errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EMFILE, errno.ENFILE)


class Fault(StrEnum):
    """What can go wrong on the wire."""

    NO_ROUTE = "no_route"  # this host has no way there, or no socket left: ours, not the proxy's
    REFUSED = "connection_refused"
    CLOSED = "connection_closed"
    PROTOCOL = "protocol_error"
    TOO_LARGE = "too_large"
    TLS_INTERCEPT = "tls_intercept"  # another certificate than the target's
    TLS_FAILED = "tls_failed"


class WireError(ProxyPoolError):
    """The exchange failed; `fault` says how. Time-outs are TimeoutError: the caller sets the deadline."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.value)
        self.fault = fault


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """One answer: status 200–599, header names in lower case, the body after its framing was checked."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """User name and password for the proxy."""

    username: str
    password: str

    def header(self) -> str:
        """The Proxy-Authorization line (Basic, RFC 7617)."""
        token = base64.b64encode(f"{self.username}:{self.password}".encode()).decode()
        return f"Proxy-Authorization: Basic {token}\r\n"


def get(target: str, host: str, *, agent: str, login: Login | None = None) -> bytes:
    """A GET; `target` is a path, or a whole URL where a proxy reads it."""
    return _request(f"GET {target}", host, f"User-Agent: {agent}\r\nAccept: */*\r\nConnection: close\r\n", login)


def connect_to(authority: str, *, login: Login | None = None) -> bytes:
    """A CONNECT for host:port; the name goes to the proxy unresolved."""
    return _request(f"CONNECT {authority}", authority, "", login)


class Wire(asyncio.Protocol):
    """One connection and what has arrived on it, never more than an answer's bounds."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._ended = False
        self._overflow = False
        self._more: asyncio.Future[None] | None = None
        self._transport: asyncio.Transport | None = None

    @classmethod
    async def open(cls, ip: str, port: int) -> Wire:
        """A connection to a vetted address; raises WireError."""
        try:
            _, wire = await asyncio.get_running_loop().create_connection(cls, ip, port)
        except OSError as error:
            if isinstance(error, TimeoutError):
                raise
            raise WireError(Fault.NO_ROUTE if error.errno in _NO_ROUTE else Fault.REFUSED) from error
        return wire

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Called by the loop."""
        self._buffer += data
        if len(self._buffer) > MAX_HEAD_BYTES + 2 * MAX_BODY_BYTES:
            self._overflow = True
            self.close()
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop."""
        self._ended = True
        self._wake()

    def close(self) -> None:
        """Ends the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    async def ask(self, request: bytes) -> Response:
        """Sends a request and reads its whole answer, up to the end of the connection."""
        self._send(request)
        head = await self._final_head()
        return Response(status=head.status, headers=head.headers, body=await self._body(head))

    async def tunnel(self, request: bytes) -> int:
        """Sends a CONNECT; returns its status. After 200 the way is free, and nothing may have come through it yet."""
        self._send(request)
        status = (await self._final_head()).status
        if status == 200 and self._buffer:
            raise WireError(Fault.PROTOCOL)
        return status

    async def secure(self, context: ssl.SSLContext, server_name: str) -> None:
        """TLS on this connection, the certificate verified for `server_name`."""
        if self._transport is None or self._ended:
            raise WireError(Fault.CLOSED)
        try:
            secured = await asyncio.get_running_loop().start_tls(
                self._transport, self, context, server_hostname=server_name
            )
        except ssl.SSLCertVerificationError as error:
            raise WireError(Fault.TLS_INTERCEPT) from error
        except ssl.SSLError as error:
            raise WireError(Fault.TLS_FAILED) from error
        except OSError as error:
            if isinstance(error, TimeoutError):
                raise
            raise WireError(Fault.CLOSED) from error
        if secured is None:
            raise WireError(Fault.CLOSED)
        self._transport = secured

    def _send(self, request: bytes) -> None:
        if self._transport is None or self._ended:
            raise WireError(Fault.CLOSED)
        self._transport.write(request)

    def _wake(self) -> None:
        if self._more is not None and not self._more.done():
            self._more.set_result(None)

    async def _wait(self) -> bool:
        """Waits for more bytes; False at the connection's end."""
        if self._overflow:
            raise WireError(Fault.TOO_LARGE)
        if self._ended:
            return False
        self._more = asyncio.get_running_loop().create_future()
        await self._more
        return True

    async def _final_head(self) -> _Head:
        for _ in range(MAX_INFORMATIONAL + 1):
            head = _parse_head(await self._until(b"\r\n\r\n", MAX_HEAD_BYTES))
            if head.status >= 200:
                return head
        raise WireError(Fault.PROTOCOL)

    async def _until(self, mark: bytes, at_most: int) -> bytes:
        """The bytes before the mark; both are taken out of the buffer."""
        while (end := self._buffer.find(mark)) < 0:
            if len(self._buffer) > at_most:
                raise WireError(Fault.PROTOCOL)
            if not await self._wait():
                raise WireError(Fault.PROTOCOL if self._buffer else Fault.CLOSED)
        if end > at_most:
            raise WireError(Fault.PROTOCOL)
        return self._take(end + len(mark))[:end]

    async def _exactly(self, size: int) -> bytes:
        if size > MAX_BODY_BYTES:
            raise WireError(Fault.TOO_LARGE)
        while len(self._buffer) < size:
            if not await self._wait():
                raise WireError(Fault.PROTOCOL)
        return self._take(size)

    async def _body(self, head: _Head) -> bytes:
        if head.status in (204, 304):
            return b""
        if head.chunked:
            body = await self._chunks()
        elif head.length is not None:
            body = await self._exactly(head.length)
        else:
            return await self._to_the_end()
        if self._buffer:  # a second answer that nobody asked for
            raise WireError(Fault.PROTOCOL)
        return body

    async def _chunks(self) -> bytes:
        body = bytearray()
        while size := _chunk_size(await self._until(b"\r\n", 32)):
            body += await self._exactly(size)
            if len(body) > MAX_BODY_BYTES:
                raise WireError(Fault.TOO_LARGE)
            if await self._exactly(2) != b"\r\n":
                raise WireError(Fault.PROTOCOL)
        if await self._exactly(2) != b"\r\n":  # trailers are refused
            raise WireError(Fault.PROTOCOL)
        return bytes(body)

    async def _to_the_end(self) -> bytes:
        while await self._wait():
            if len(self._buffer) > MAX_BODY_BYTES:
                raise WireError(Fault.TOO_LARGE)
        return self._take(len(self._buffer))

    def _take(self, size: int) -> bytes:
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken


@dataclass(frozen=True, slots=True, kw_only=True)
class _Head:
    status: int
    headers: tuple[tuple[str, str], ...]
    chunked: bool
    length: int | None


def _request(line: str, host: str, more: str, login: Login | None) -> bytes:
    return f"{line} HTTP/1.1\r\nHost: {host}\r\n{login.header() if login else ''}{more}\r\n".encode()


def _parse_head(raw: bytes) -> _Head:
    """Strict: no bare line feed, no folded line, one framing."""
    first, *lines = raw.decode("latin-1").split("\r\n")
    version, _, rest = first.partition(" ")
    code = rest[:3]
    if version not in ("HTTP/1.1", "HTTP/1.0") or not (code.isascii() and code.isdigit() and rest[3:4] in ("", " ")):
        raise WireError(Fault.PROTOCOL)
    headers = tuple(_header(line) for line in lines)
    lengths = {value for name, value in headers if name == "content-length"}
    codings = [value.lower() for name, value in headers if name == "transfer-encoding"]
    if len(lengths) > 1 or (lengths and codings) or codings not in ([], ["chunked"]) or not 100 <= int(code) <= 599:
        raise WireError(Fault.PROTOCOL)
    length = lengths.pop() if lengths else None
    if length is not None and not (length.isascii() and length.isdigit() and len(length) <= 12):
        raise WireError(Fault.PROTOCOL)
    return _Head(
        status=int(code), headers=headers, chunked=bool(codings), length=None if length is None else int(length)
    )


def _header(line: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    if not colon or not name or name != name.strip() or any(sign in line for sign in "\n\r\0"):
        raise WireError(Fault.PROTOCOL)
    return name.lower(), value.strip()


def _chunk_size(line: bytes) -> int:
    digits = line.partition(b";")[0].strip()
    try:
        if not digits or digits[:1] in b"+-" or b"_" in digits:
            raise ValueError
        return int(digits, 16)
    except ValueError:
        raise WireError(Fault.PROTOCOL) from None
