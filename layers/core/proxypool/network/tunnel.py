"""The ways through a proxy, by what it speaks: absolute-form requests, CONNECT, TLS to the proxy itself, SOCKS 4, 4a, 5.

A checker opens a `Wire` to the vetted address and calls one of:

    await ask_plain(wire, hop, url, agent=…)    GET http://…: absolute form, or through a SOCKS tunnel
    await ask_secure(wire, hop, url, agent=…)   GET https://…: tunnel, then the target's verified TLS
    await ask_any(wire, hop, url, message, …)   whatever a job asks for: any method, headers and body
    await greet(wire, hop); await enter(wire, hop, host, port)   the parts of it

All raise WireError with one word of `Fault`; time is the caller's (`Deadline`). No redirect is followed, no cookie kept.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass

from proxypool.network import socks
from proxypool.network.address import Url
from proxypool.network.faults import Fault, WireError
from proxypool.network.http1 import MAX_BODY_BYTES, Login, Message, Response, connect_to, get
from proxypool.network.wire import Wire

__all__ = ["Fault", "Hop", "Login", "Message", "Response", "Wire", "WireError", "ask_any", "ask_plain", "ask_secure",
           "connect_to", "enter", "get", "greet"]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Hop:
    """A proxy as the wire sees it. `protocol`: http, https (the same inside of TLS to the proxy), socks4 or socks5.

    `name` is the host that the list names: an https proxy's certificate is verified for it.
    """

    protocol: str
    name: str
    tls: ssl.SSLContext
    login: Login | None = None


async def ask_plain(wire: Wire, hop: Hop, url: Url, *, agent: str, max_body_bytes: int = MAX_BODY_BYTES) -> Response:
    """The answer to a plain GET through the proxy. 407 and redirects are answers like others here."""
    authority = url.authority
    if hop.protocol in ("http", "https"):
        await greet(wire, hop)
        request = get(f"{url.scheme}://{authority}{url.target}", authority, agent=agent, login=hop.login)
    else:
        await enter(wire, hop, url.host, url.port)
        request = get(url.target, authority, agent=agent)
    return await wire.ask(request, max_body_bytes=max_body_bytes)


async def ask_secure(wire: Wire, hop: Hop, url: Url, *, agent: str, max_body_bytes: int = MAX_BODY_BYTES) -> Response:
    """The answer to a GET over HTTPS through the proxy; the target's certificate is verified, there is no way around it."""
    await greet(wire, hop)
    await enter(wire, hop, url.host, url.port)
    await wire.secure(hop.tls, url.host)
    return await wire.ask(get(url.target, url.authority, agent=agent), max_body_bytes=max_body_bytes)


async def ask_any(wire: Wire, hop: Hop, url: Url, message: Message, *, max_body_bytes: int) -> Response:
    """The answer to any request, by the way that the URL's scheme asks for; raises ValueError for headers that break a line."""
    await greet(wire, hop)
    is_forwarded = url.scheme == "http" and hop.protocol in ("http", "https")
    if not is_forwarded:
        await enter(wire, hop, url.host, url.port)
    if url.scheme == "https":
        await wire.secure(hop.tls, url.host)
    target = f"http://{url.authority}{url.target}" if is_forwarded else url.target
    request = message.written(target, url.authority, login=hop.login if is_forwarded else None)
    return await wire.ask(request, max_body_bytes=max_body_bytes, bodiless=message.method == "HEAD")


async def greet(wire: Wire, hop: Hop) -> None:
    """TLS to the proxy itself where that is its protocol. A certificate that is not its own is TLS_FAILED."""
    if hop.protocol != "https":
        return
    try:
        await wire.secure(hop.tls, hop.name)
    except WireError as error:
        raise WireError(Fault.TLS_FAILED) if error.fault is Fault.TLS_INTERCEPT else error from error


async def enter(wire: Wire, hop: Hop, host: str, port: int) -> None:
    """Has the proxy open a way to the host, which it is told by name; the next byte sent goes to the target."""
    if hop.protocol == "socks4":
        wire.send(socks.connect4(host, port, hop.login))
        socks.check4(await wire.read(socks.exactly(8)))
    elif hop.protocol == "socks5":
        await _enter5(wire, host, port, hop.login)
    else:
        authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        _check_connect(await wire.tunnel(connect_to(authority, login=hop.login)))
    wire.expect_silence()


async def _enter5(wire: Wire, host: str, port: int, login: Login | None) -> None:
    wire.send(socks.greeting5(login))
    method = socks.method5(await wire.read(socks.exactly(2)), login)
    if method == socks.BY_PASSWORD and login:
        wire.send(socks.login5(login))
        socks.check_login5(await wire.read(socks.exactly(2)))
    wire.send(socks.connect5(host, port))
    await wire.read(socks.reply5)


def _check_connect(status: int) -> None:
    """Raises WireError for an answer to CONNECT that opens no way. A redirect is never followed."""
    if status == 407:
        raise WireError(Fault.CREDENTIALS)
    if 300 <= status < 400:
        raise WireError(Fault.REDIRECT)
    if status != 200:
        raise WireError(Fault.CONNECT_REFUSED, status)
