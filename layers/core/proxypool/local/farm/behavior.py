"""What the farm's proxies do to requests and answers: bytes in, bytes out. Pure."""

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
ADVERT = b"<script src=//ads.invalid/x.js></script>"
ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"
BABBLE = b"\x15\x03\x01\x00\x02\x02\x50 no proxy\r\n\r\n"
OLD_NONCE = b"0" * 32
_NONCE = re.compile(rb"nonce=([0-9a-f]{32})")


def refuse(status: str, *headers: str, body: str = "") -> bytes:
    """A whole response that ends the connection."""
    lines = [f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body)}", "Connection: close"]
    return ("\r\n".join(lines) + "\r\n\r\n" + body).encode()


REFUSED_PASSWORD = refuse("407 Proxy Authentication Required", 'Proxy-Authenticate: Basic realm="farm"')
FLOOD_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n"
CAPTIVE_PAGE = "<html><body>Your subscription has ended. Please pay your bill.</body></html>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a client asks a proxy: where to connect, what to send there first; `tunnel` for CONNECT and SOCKS."""

    host: str
    port: int
    first: bytes
    tunnel: bool
    granted: bytes = ESTABLISHED  # what the client is told when the tunnel is open


def read_request(head: bytes, rest: bytes, extra: Sequence[bytes] = ()) -> Request:
    """The request of a head in absolute form or CONNECT; `extra` header lines are added. Raises ValueError."""
    first, *lines = head.split(b"\r\n")
    method, target, version = first.split(b" ")
    tunnel = method == b"CONNECT"
    url = urlsplit(("//" if tunnel else "") + target.decode("ascii"))
    if not url.hostname or (not tunnel and url.scheme != "http"):
        raise ValueError("neither CONNECT nor absolute form")
    if tunnel:
        return Request(host=url.hostname, port=url.port or 443, first=rest, tunnel=True)
    path = (url.path or "/") + (f"?{url.query}" if url.query else "")
    kept = [line for line in lines if not line.lower().startswith((b"proxy-", b"connection:"))]
    sent = b"\r\n".join([b"%s %s %s" % (method, path.encode(), version), *kept, *extra, b"Connection: close"])
    return Request(host=url.hostname, port=url.port or 80, first=sent + b"\r\n\r\n" + rest, tunnel=False)


def has_password(head: bytes) -> bool:
    """Whether the head carries the farm's credentials."""
    name = b"proxy-authorization:"
    given = [line[len(name) :].strip() for line in head.split(b"\r\n") if line.lower().startswith(name)]
    return any(value[:6].lower() + value[6:] == BASIC for value in given)


def with_advert(response: bytes) -> bytes:
    """The response with something put behind its body, its length set right."""
    return _with_length(response, len(ADVERT)) + ADVERT


def aged(first: bytes) -> bytes:
    """The request with an old nonce instead of its own: the answer will be genuine, and stale."""
    return _NONCE.sub(b"nonce=" + OLD_NONCE, first)


def looks_like_judging(head: bytes) -> bool:
    """What a judge-aware proxy recognises."""
    return _NONCE.search(head) is not None


def lie(head: bytes) -> bytes:
    """What the judge would say if it had seen another exit, signed by somebody without the key."""
    found = _NONCE.search(head)
    nonce = found[1].decode() if found else ""
    payload: dict[str, Any] = {"nonce": nonce, "peer": "198.51.100.7", "headers": [], "scheme": "http", "country": "us"}
    body = {"payload": json.dumps(payload, separators=(",", ":")), "signature": "0" * 64}
    return refuse("200 OK", "Content-Type: application/json", body=json.dumps(body, separators=(",", ":")))


def reply(act: Act, head: bytes) -> bytes | None:
    """The whole answer of an act that forwards nothing, else None."""
    if act is Act.LIE:
        return lie(head)
    return _REPLIES.get(act)


_REPLIES: dict[Act, bytes] = {
    Act.REDIRECT: refuse("302 Found", "Location: http://ads.example/"),
    Act.CAPTIVE: refuse("200 OK", "Content-Type: text/html", "Set-Cookie: seen=1; Domain=test", body=CAPTIVE_PAGE),
    Act.BABBLE: BABBLE,
    Act.REFUSE: refuse("403 Forbidden"),
    Act.BABBLE_AFTER: ESTABLISHED + BABBLE,
}


def _with_length(response: bytes, more: int, *, extra: bytes = b"") -> bytes:
    """The response with another Content-Length, and further header lines."""
    head, _, body = response.partition(b"\r\n\r\n")
    lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"content-length:")]
    return b"\r\n".join([*lines, b"Content-Length: %d" % (len(body) + more)]) + extra + b"\r\n\r\n" + body


ALTERATIONS: dict[Act, Callable[[bytes], bytes]] = {
    Act.INJECT: with_advert,
    Act.AWARE: with_advert,
    Act.LENGTHEN: lambda response: _with_length(response, 1),
    Act.SHORTEN: lambda response: _with_length(response, -1),
    Act.SMUGGLE: lambda response: _with_length(response, 0, extra=b"\r\nTransfer-Encoding: chunked"),
}
"""What is done to the whole answer before the client gets it."""
