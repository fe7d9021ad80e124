"""Requests through a proxy, by its protocol: absolute-form requests, CONNECT, TLS to the proxy, SOCKS 4, 4a, 5.

Open a `Connection` to the proxy's vetted address and call one of:

    await get_http(connection, hop, url, user_agent=…)     GET http://…: absolute form, or through a SOCKS tunnel
    await get_https(connection, hop, url, user_agent=…)    GET https://…: tunnel, then verified TLS to the target
    await send_request(connection, hop, url, request, …)   any method, headers and body
    await start_proxy_tls(connection, hop); await open_tunnel(connection, hop, host, port)   the steps of these

All raise TransportError with a `Fault`; the caller sets the time limit (`Deadline`). Redirects are not followed,
cookies not stored.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass

from proxypool.network import socks
from proxypool.network.address import Url
from proxypool.network.faults import Fault, TransportError
from proxypool.network.http1 import MAX_BODY_BYTES, HttpRequest, ProxyCredentials, Response, build_connect, build_get
from proxypool.network.wire import Connection

__all__ = [
    "Connection",
    "Fault",
    "HttpRequest",
    "ProxyCredentials",
    "ProxyHop",
    "Response",
    "TransportError",
    "build_connect",
    "build_get",
    "get_http",
    "get_https",
    "open_tunnel",
    "send_request",
    "start_proxy_tls",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyHop:
    """The proxy of a request. `protocol`: http, https (http over TLS to the proxy), socks4 or socks5.

    `host` is the proxy's listed host: the certificate of an https proxy is verified for it.
    """

    protocol: str
    host: str
    tls: ssl.SSLContext
    credentials: ProxyCredentials | None = None


async def get_http(
    connection: Connection, hop: ProxyHop, url: Url, *, user_agent: str, max_body_bytes: int = MAX_BODY_BYTES
) -> Response:
    """GET over plain HTTP through the proxy. A 407 or a redirect is returned like any other response."""
    authority = url.authority
    if hop.protocol in ("http", "https"):
        await start_proxy_tls(connection, hop)
        request = build_get(
            f"{url.scheme}://{authority}{url.target}", authority, user_agent=user_agent, credentials=hop.credentials
        )
    else:
        await open_tunnel(connection, hop, url.host, url.port)
        request = build_get(url.target, authority, user_agent=user_agent)
    return await connection.request(request, max_body_bytes=max_body_bytes)


async def get_https(
    connection: Connection, hop: ProxyHop, url: Url, *, user_agent: str, max_body_bytes: int = MAX_BODY_BYTES
) -> Response:
    """GET over HTTPS through the proxy; the target's certificate is always verified."""
    await start_proxy_tls(connection, hop)
    await open_tunnel(connection, hop, url.host, url.port)
    await connection.start_tls(hop.tls, url.host)
    return await connection.request(
        build_get(url.target, url.authority, user_agent=user_agent), max_body_bytes=max_body_bytes
    )


async def send_request(
    connection: Connection, hop: ProxyHop, url: Url, http_request: HttpRequest, *, max_body_bytes: int
) -> Response:
    """Sends any request through the proxy, tunnelled if needed; raises ValueError for an invalid header."""
    await start_proxy_tls(connection, hop)
    is_absolute_form = url.scheme == "http" and hop.protocol in ("http", "https")
    if not is_absolute_form:
        await open_tunnel(connection, hop, url.host, url.port)
    if url.scheme == "https":
        await connection.start_tls(hop.tls, url.host)
    target = f"http://{url.authority}{url.target}" if is_absolute_form else url.target
    request = http_request.encode(target, url.authority, credentials=hop.credentials if is_absolute_form else None)
    return await connection.request(request, max_body_bytes=max_body_bytes, no_body=http_request.method == "HEAD")


async def start_proxy_tls(connection: Connection, hop: ProxyHop) -> None:
    """TLS to the proxy itself, if its protocol is https. A wrong certificate is TLS_FAILED."""
    if hop.protocol != "https":
        return
    try:
        await connection.start_tls(hop.tls, hop.host)
    except TransportError as error:
        raise TransportError(Fault.TLS_FAILED) if error.fault is Fault.TLS_INTERCEPT else error from error


async def open_tunnel(connection: Connection, hop: ProxyHop, host: str, port: int) -> None:
    """Requests a tunnel to the host (its name is sent unresolved); all further bytes go to the target."""
    if hop.protocol == "socks4":
        connection.send(socks.socks4_connect_request(host, port, hop.credentials))
        socks.check_socks4_reply(await connection.read(socks.read_exactly(8)))
    elif hop.protocol == "socks5":
        await _open_socks5_tunnel(connection, host, port, hop.credentials)
    else:
        authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        _raise_for_connect_status(
            await connection.connect_tunnel(build_connect(authority, credentials=hop.credentials))
        )
    connection.expect_no_data()


async def _open_socks5_tunnel(
    connection: Connection, host: str, port: int, credentials: ProxyCredentials | None
) -> None:
    connection.send(socks.socks5_greeting(credentials))
    method = socks.parse_socks5_method(await connection.read(socks.read_exactly(2)), credentials)
    if method == socks.AUTH_PASSWORD and credentials:
        connection.send(socks.socks5_auth_request(credentials))
        socks.check_socks5_auth(await connection.read(socks.read_exactly(2)))
    connection.send(socks.socks5_connect_request(host, port))
    await connection.read(socks.read_socks5_reply)


def _raise_for_connect_status(status: int) -> None:
    """Raises TransportError if the status of a CONNECT response is not 200. Redirects are not followed."""
    if status == 407:
        raise TransportError(Fault.CREDENTIALS)
    if 300 <= status < 400:
        raise TransportError(Fault.REDIRECT)
    if status != 200:
        raise TransportError(Fault.CONNECT_REFUSED, status)
