"""One page through one leased proxy: never directly, never further than the rules go. Every hop of a redirect is vetted anew.

The target's name goes to the proxy unresolved (nothing leaks by DNS); it is vetted by its spelling.
"""

from __future__ import annotations

import asyncio
import re
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urljoin

import httpx
from proxypool_client.cookies import Jar
from proxypool_client.outcome import Outcome

from proxypool.errors import AddressRefused, SourceError
from proxypool.jobs.job import JobRequest
from proxypool.network.address import Url, is_address, parse_url, refusal
from proxypool.network.fetch import Limits, is_tls_error, read_body

MAX_HOPS: Final = 5
USER_AGENT: Final = "proxypool/0.1"
SPEAKS: Final = frozenset({"http", "https", "socks5"})  # how this worker can speak to a proxy
SAFE_HEADERS: Final = frozenset({"accept", "accept-language", "user-agent"})  # what goes to another origin, too
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_TOKEN: Final = re.compile(r"\{token:([A-Za-z0-9_.-]{1,64})\}")


class Refused(Exception):
    """The request is not sent; `reason` in one word."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Failed(Exception):
    """No answer came; `outcome` says whose fault that is."""

    def __init__(self, outcome: Outcome, reason: str) -> None:
        super().__init__(reason)
        self.outcome, self.reason = outcome, reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back: header names in lower case, the body decoded and whole."""

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def media_type(self) -> str:
        """The content type without its parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


@dataclass(slots=True, kw_only=True)
class Errand:
    """A request on its way: what it carries, and what it may."""

    request: JobRequest
    jar: Jar = field(default_factory=Jar)
    tokens: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)  # the session's
    allow_http: bool = False
    limits: Limits = field(default_factory=Limits)


async def fetch(errand: Errand, proxy_url: str, *, tls: ssl.SSLContext, seconds: float) -> Answer:
    """The page; raises Refused (nothing was sent where it may not go) or Failed."""
    try:
        async with asyncio.timeout(seconds), _client(proxy_url, tls, seconds) as client:
            return await _follow(client, errand)
    except (TimeoutError, httpx.TimeoutException) as error:
        raise Failed(Outcome.TIMEOUT, "timeout") from error
    except AddressRefused as error:
        raise Refused(str(error.reason)) from error
    except SourceError as error:  # too large, an encoding that nobody asked for: what the target sends
        raise Failed(Outcome.TARGET_ERROR, error.reason) from error
    except httpx.ProxyError as error:
        raise Failed(*_proxy_fault(str(error))) from error
    except httpx.HTTPError as error:
        raise Failed(Outcome.PROXY_ERROR, "tls" if is_tls_error(error) else "connection") from error


def vetted(text: str, *, allow_http: bool, allow_loopback: bool) -> Url:
    """The target by its spelling; raises AddressRefused where the pool does not go there, whoever asks."""
    url = parse_url(text, allow_http=allow_http)
    reason = refusal(url.host, allow_loopback=allow_loopback) if is_address(url.host) else ""
    if reason:
        raise AddressRefused(reason)
    return url


def _client(proxy_url: str, tls: ssl.SSLContext, seconds: float) -> httpx.AsyncClient:
    proxy = httpx.Proxy(proxy_url, ssl_context=tls if proxy_url.startswith("https:") else None)
    return httpx.AsyncClient(proxy=proxy, verify=tls, trust_env=False, timeout=seconds, http2=False)


async def _follow(client: httpx.AsyncClient, errand: Errand) -> Answer:
    request = errand.request
    method, body, text = request.method, request.body.encode(), request.url
    home = _vet(text, errand, allow_http=errand.allow_http)
    url = home
    for _ in range(MAX_HOPS + 1):
        same_origin = (url.scheme, url.host, url.port) == (home.scheme, home.host, home.port)
        sent = _headers(errand, url, same_origin=same_origin)
        client.cookies.clear()
        async with client.stream(method, str(url), headers=sent, content=body or None) as response:
            errand.jar.take(response.headers.get_list("set-cookie"), str(url), now=time.time())
            location = response.headers.get("location", "")
            if response.status_code not in _REDIRECTS or not location:
                return Answer(
                    url=str(url),
                    status=response.status_code,
                    headers={name.lower(): value for name, value in response.headers.items()},
                    body=await read_body(response, errand.limits),
                )
            if response.status_code == 303 or (response.status_code in (301, 302) and method == "POST"):
                method, body = "GET", b""
        url = _vet(urljoin(str(url), location), errand, allow_http=errand.allow_http and url.scheme == "http")
    raise Failed(Outcome.TARGET_ERROR, "too_many_redirects")


def _vet(text: str, errand: Errand, *, allow_http: bool) -> Url:
    return vetted(text, allow_http=allow_http, allow_loopback=errand.limits.allow_loopback)


def _headers(errand: Errand, url: Url, *, same_origin: bool) -> dict[str, str]:
    """The headers for one hop. Another origin gets nothing that could be a secret; plain http neither, unless that is allowed."""
    own = {**errand.headers, **errand.request.headers}
    named = {name.lower(): _with_tokens(value, errand.tokens) for name, value in own.items()}
    if not same_origin:
        named = {name: value for name, value in named.items() if name in SAFE_HEADERS}
    cookies = errand.jar.header(str(url), now=time.time())
    secret = bool(cookies) or any(name not in SAFE_HEADERS and name != "content-type" for name in named)
    if secret and url.scheme == "http" and not errand.request.allow_plaintext_secrets:
        raise Refused("plaintext_secrets")
    sent = {"user-agent": USER_AGENT, "accept": "*/*", **named, "accept-encoding": "gzip"}
    return sent | ({"cookie": cookies} if cookies else {})


def _with_tokens(value: str, tokens: Mapping[str, str]) -> str:
    """`Bearer {token:access}` with the session's token of that name; raises Refused where it has none."""

    def fill(found: re.Match[str]) -> str:
        if found[1] not in tokens:
            raise Refused("token_missing")
        return tokens[found[1]]

    return _TOKEN.sub(fill, value)


def _proxy_fault(text: str) -> tuple[Outcome, str]:
    """Whose fault a refused CONNECT is: its status stands at the head of the message."""
    status = text[:3]
    if status == "407":
        return Outcome.CREDENTIALS, "http_407"
    if status in ("502", "503", "504"):  # the proxy answers, the target does not
        return Outcome.TARGET_ERROR, f"connect_{status}"
    return Outcome.PROXY_ERROR, f"connect_{status}" if status.isdigit() else "handshake"
