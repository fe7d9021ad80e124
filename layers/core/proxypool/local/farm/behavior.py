"""How the farm's proxies change requests and responses. Pure: bytes in, bytes out."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from proxypool.local.farm.kinds import PASSWORD, USER, Act

BASIC = b"basic " + b64encode(f"{USER}:{PASSWORD}".encode())
AD = b"<script src=//ads.invalid/x.js></script>"
ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"
GARBAGE = b"\x15\x03\x01\x00\x02\x02\x50 no proxy\r\n\r\n"
OLD_NONCE = b"0" * 32
_NONCE = re.compile(rb"nonce=([0-9a-f]{32})")


def error_response(status: str, *headers: str, body: str = "") -> bytes:
    """A complete response with `Connection: close`."""
    lines = [f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body)}", "Connection: close"]
    return ("\r\n".join(lines) + "\r\n\r\n" + body).encode()


REFUSED_PASSWORD = error_response("407 Proxy Authentication Required", 'Proxy-Authenticate: Basic realm="farm"')
FLOOD_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n"
CAPTIVE_PAGE = "<html><body>Your subscription has ended. Please pay your bill.</body></html>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A client's request to a proxy: the target, and the first bytes to send to it; `tunnel` for CONNECT and SOCKS."""

    host: str
    port: int
    first: bytes
    tunnel: bool
    granted: bytes = ESTABLISHED  # the response when the tunnel is open


def read_request(head: bytes, rest: bytes, extra: Sequence[bytes] = ()) -> Request:
    """The request of a head (CONNECT or absolute form); `extra` header lines are added. Raises ValueError."""
    first, *lines = head.split(b"\r\n")
    method, target, version = first.split(b" ")
    tunnel = method == b"CONNECT"
    url = urlsplit(("//" if tunnel else "") + target.decode("ascii"))
    if not url.hostname or (not tunnel and url.scheme != "http"):
        raise ValueError("neither CONNECT nor absolute form")
    if tunnel:
        return Request(host=url.hostname, port=url.port or 443, first=rest, tunnel=True)
    path = (url.path or "/") + (f"?{url.query}" if url.query else "")
    headers = [line for line in lines if not line.lower().startswith((b"proxy-", b"connection:"))]
    sent = b"\r\n".join([b"%s %s %s" % (method, path.encode(), version), *headers, *extra, b"Connection: close"])
    return Request(host=url.hostname, port=url.port or 80, first=sent + b"\r\n\r\n" + rest, tunnel=False)


def has_password(head: bytes) -> bool:
    """Whether the head carries the farm's credentials."""
    name = b"proxy-authorization:"
    values = [line[len(name) :].strip() for line in head.split(b"\r\n") if line.lower().startswith(name)]
    return any(value[:6].lower() + value[6:] == BASIC for value in values)


def with_ad(response: bytes) -> bytes:
    """The response with an ad appended to its body and a correct Content-Length."""
    return _with_length(response, len(AD)) + AD


def with_old_nonce(first: bytes) -> bytes:
    """The request with another nonce: the judge's response is signed, but answers another request."""
    return _NONCE.sub(b"nonce=" + OLD_NONCE, first)


def has_nonce(head: bytes) -> bool:
    """Whether this looks like a request to the judge."""
    return _NONCE.search(head) is not None


def forge(head: bytes) -> bytes:
    """A judge's response with another exit IP, and an invalid signature."""
    match = _NONCE.search(head)
    nonce = match[1].decode() if match else ""
    payload: dict[str, Any] = {"nonce": nonce, "peer": "198.51.100.7", "headers": [], "scheme": "http", "country": "us"}
    body = {"payload": json.dumps(payload, separators=(",", ":")), "signature": "0" * 64}
    return error_response("200 OK", "Content-Type: application/json", body=json.dumps(body, separators=(",", ":")))


def canned_response(act: Act, head: bytes) -> bytes | None:
    """The response of an act that does not connect to the target, else None."""
    if act is Act.FORGE:
        return forge(head)
    return _RESPONSES.get(act)


_RESPONSES: dict[Act, bytes] = {
    Act.REDIRECT: error_response("302 Found", "Location: http://ads.example/"),
    Act.CAPTIVE: error_response(
        "200 OK", "Content-Type: text/html", "Set-Cookie: seen=1; Domain=test", body=CAPTIVE_PAGE
    ),
    Act.GARBAGE: GARBAGE,
    Act.REFUSE: error_response("403 Forbidden"),
    Act.GARBAGE_AFTER: ESTABLISHED + GARBAGE,
}


def with_close(response: bytes) -> bytes:
    """The start of a response, with `Connection: close` in its head."""
    head, _, body = response.partition(b"\r\n\r\n")
    lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"connection:")]
    return b"\r\n".join([*lines, b"Connection: close"]) + b"\r\n\r\n" + body


def _with_length(response: bytes, difference: int, *, extra: bytes = b"") -> bytes:
    """The response with a Content-Length of its body's length plus `difference`, and `extra` header lines."""
    head, _, body = response.partition(b"\r\n\r\n")
    lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"content-length:")]
    return b"\r\n".join([*lines, b"Content-Length: %d" % (len(body) + difference)]) + extra + b"\r\n\r\n" + body


ALTERATIONS: dict[Act, Callable[[bytes], bytes]] = {
    Act.INJECT: with_ad,
    Act.AWARE: with_ad,
    Act.LENGTHEN: lambda response: _with_length(response, 1),
    Act.SHORTEN: lambda response: _with_length(response, -1),
    Act.SMUGGLE: lambda response: _with_length(response, 0, extra=b"\r\nTransfer-Encoding: chunked"),
}
"""Changes of a complete response."""
