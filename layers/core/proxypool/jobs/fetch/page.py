"""Fetches one page through one leased proxy, never directly. The URL of each redirect is validated again.

The host name of the target is sent to the proxy unresolved (no DNS leak) and validated as text. The host name of the proxy is resolved
and validated at each connection. Responses are parsed as strictly as in a check.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote, urljoin, urlsplit

from proxypool_client.cookies import Jar
from proxypool_client.outcome import Outcome

from proxypool import clock
from proxypool.errors import AddressRefused, ProxyPoolError, SourceError
from proxypool.jobs.job import JobRequest
from proxypool.network import guard
from proxypool.network.address import FORBIDDEN_NETWORKS, Refusal, Url, is_address, parse_public_url, without_reasons
from proxypool.network.deadline import Deadline
from proxypool.network.fetch import FetchLimits, decode_body
from proxypool.network.tunnel import (
    Connection,
    Fault,
    HttpRequest,
    ProxyCredentials,
    ProxyHop,
    Response,
    TransportError,
    send_request,
)

MAX_HOPS: Final = 5
USER_AGENT: Final = "proxypool/0.1"
SAFE_HEADERS: Final = frozenset({"accept", "accept-language", "user-agent"})  # sent to other origins, too
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_TARGET_CODES: Final = frozenset(
    {502, 503, 504, 3, 4, 5, 6}
)  # the proxy cannot reach the target (SOCKS5 codes: RFC 1928, section 6)
_TOKEN: Final = re.compile(r"\{token:([A-Za-z0-9_.-]{1,64})\}")


class RequestRefused(ProxyPoolError):
    """The request was not sent; `reason` is one word."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class FetchFailed(ProxyPoolError):
    """The page could not be fetched; `outcome` blames the proxy or the target."""

    def __init__(self, outcome: Outcome, reason: str) -> None:
        super().__init__(reason)
        self.outcome, self.reason = outcome, reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A complete response: header names in lower case, the body decoded."""

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(slots=True, kw_only=True)
class PageRequest:
    """A request with its session, its limits, and the bytes received by all of its connections (redirects included)."""

    request: JobRequest
    jar: Jar = field(default_factory=Jar)
    tokens: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)  # the session's
    allow_http: bool = False
    limits: FetchLimits = field(default_factory=FetchLimits)
    received_bytes: int = 0


async def fetch(page_request: PageRequest, proxy_url: str, *, tls: ssl.SSLContext, seconds: float) -> Answer:
    """Fetches the page, following redirects; raises RequestRefused or FetchFailed."""
    try:
        with Deadline(seconds):
            return await _follow(_hop(proxy_url, tls), proxy_url, page_request)
    except TimeoutError as error:
        raise FetchFailed(Outcome.TIMEOUT, "timeout") from error
    except SourceError as error:  # a content encoding that was not accepted: blamed on the target
        raise FetchFailed(Outcome.TARGET_ERROR, error.reason) from error
    except TransportError as error:
        raise FetchFailed(_blame(error), error.fault.value) from error


async def _follow(hop: ProxyHop, proxy_url: str, page_request: PageRequest) -> Answer:
    """Follows redirects. Each request uses a new connection."""
    request = page_request.request
    method, body = request.method, request.body.encode()
    origin = url = _validated(request.url, page_request, allow_http=page_request.allow_http)
    for _ in range(MAX_HOPS + 1):
        same_origin = (url.scheme, url.host, url.port) == (origin.scheme, origin.host, origin.port)
        message = HttpRequest(method=method, headers=_headers(page_request, url, same_origin=same_origin), body=body)
        response = await _send(hop, proxy_url, url, message, page_request)
        page_request.jar.update(
            (value for name, value in response.headers if name == "set-cookie"), str(url), now=clock.now().timestamp()
        )
        headers = dict(response.headers)
        location = headers.get("location", "")
        if response.status not in _REDIRECTS or not location:
            text = decode_body(
                response.body, headers.get("content-encoding", ""), page_request.limits.max_decoded_bytes
            )
            return Answer(url=str(url), status=response.status, headers=headers, body=text)
        if response.status == 303 or (response.status in (301, 302) and method == "POST"):
            method, body = "GET", b""
        url = _validated(
            urljoin(str(url), location), page_request, allow_http=page_request.allow_http and url.scheme == "http"
        )
    raise FetchFailed(Outcome.TARGET_ERROR, "too_many_redirects")


async def _send(hop: ProxyHop, proxy_url: str, url: Url, message: HttpRequest, page_request: PageRequest) -> Response:
    """Sends one request over a new connection to the validated address of the proxy."""
    connection = await _connect(proxy_url, page_request.limits)
    try:
        return await send_request(connection, hop, url, message, max_body_bytes=page_request.limits.max_raw_bytes)
    except ValueError as error:
        raise RequestRefused("header") from error
    finally:
        connection.close()
        page_request.received_bytes += connection.received_bytes


async def _connect(proxy_url: str, limits: FetchLimits) -> Connection:
    """Connects to the proxy. A literal private address is accepted, because its source allows it; a host name that resolves to one is
    refused.
    """
    parts = urlsplit(proxy_url)
    host = parts.hostname or ""
    networks = without_reasons(FORBIDDEN_NETWORKS, Refusal.PRIVATE) if is_address(host) else FORBIDDEN_NETWORKS
    try:
        address = await guard.resolve_vetted(
            host, parts.port or 0, allow_loopback=limits.allow_loopback, networks=networks, lookup=limits.lookup
        )
    except AddressRefused as error:
        raise FetchFailed(Outcome.PROXY_ERROR, "address_refused") from error
    return await Connection.open(*address)


def _hop(proxy_url: str, tls: ssl.SSLContext) -> ProxyHop:
    parts = urlsplit(proxy_url)
    credentials = None
    if parts.username is not None:
        credentials = ProxyCredentials(username=unquote(parts.username), password=unquote(parts.password or ""))
    return ProxyHop(protocol=parts.scheme, host=parts.hostname or "", tls=tls, credentials=credentials)


def _validated(text: str, page_request: PageRequest, *, allow_http: bool) -> Url:
    try:
        return parse_public_url(text, allow_http=allow_http, allow_loopback=page_request.limits.allow_loopback)
    except AddressRefused as error:
        raise RequestRefused(str(error.reason)) from error


def _headers(page_request: PageRequest, url: Url, *, same_origin: bool) -> dict[str, str]:
    """The headers for one request. Possible secrets are not sent to another origin, nor over plain http unless that is allowed."""
    headers = {**page_request.headers, **page_request.request.headers}
    named = {name.lower(): _with_tokens(value, page_request.tokens) for name, value in headers.items()}
    if not same_origin:
        named = {name: value for name, value in named.items() if name in SAFE_HEADERS}
    cookies = page_request.jar.header(str(url), now=clock.now().timestamp())
    secret = bool(cookies) or any(name not in SAFE_HEADERS and name != "content-type" for name in named)
    if secret and url.scheme == "http" and not page_request.request.allow_plaintext_secrets:
        raise RequestRefused("plaintext_secrets")
    sent = {"user-agent": USER_AGENT, "accept": "*/*", **named, "accept-encoding": "gzip"}
    return sent | ({"cookie": cookies} if cookies else {})


def _with_tokens(value: str, tokens: Mapping[str, str]) -> str:
    """Replaces each `{token:name}` by the token of the session; raises RequestRefused if there is none of that name."""

    def fill(match: re.Match[str]) -> str:
        if match[1] not in tokens:
            raise RequestRefused("token_missing")
        return tokens[match[1]]

    return _TOKEN.sub(fill, value)


def _blame(error: TransportError) -> Outcome:
    """The outcome that blames proxy or target: by the status code of a refused tunnel; a page that is too large blames the target."""
    if error.fault is Fault.CREDENTIALS:
        return Outcome.CREDENTIALS
    if error.fault in (Fault.TOO_LARGE, Fault.UNSUPPORTED) or error.code in _TARGET_CODES:
        return Outcome.TARGET_ERROR
    return Outcome.PROXY_ERROR
