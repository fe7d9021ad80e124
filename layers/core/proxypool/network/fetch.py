"""One bounded HTTP GET: vetted and pinned at every hop, 5 MB raw, 20 MB inflated, one deadline whatever drips."""

from __future__ import annotations

import asyncio
import ssl
import zlib
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass
from functools import cache
from typing import Final
from urllib.parse import urljoin

import httpx
from proxypool_client.bans import retry_after

from proxypool import clock
from proxypool.errors import AddressRefused, SourceError
from proxypool.network import guard
from proxypool.network.address import FORBIDDEN, Networks, Refusal, Url, is_address, parse_url, refusal

MAX_RAW_BYTES: Final = 5_000_000
MAX_DECODED_BYTES: Final = 20_000_000
_EVERYWHERE: Final = frozenset({"user-agent", "accept", "accept-encoding"})  # headers that another origin gets, too
MAX_REDIRECTS: Final = 3
USER_AGENT: Final = "proxypool/0.1"
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_GZIP: Final = 16 + zlib.MAX_WBITS


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """What came back. `status` is 2xx or 304 (then the body is empty)."""

    status: int
    body: bytes
    etag: str
    last_modified: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one fetch may take, and where it may go."""

    total_seconds: float = 30.0
    allow_http: bool = False
    allow_loopback: bool = False
    networks: Networks = FORBIDDEN
    lookup: guard.Lookup = guard.system_lookup
    max_raw_bytes: int = MAX_RAW_BYTES
    max_decoded_bytes: int = MAX_DECODED_BYTES


@cache
def tls() -> ssl.SSLContext:
    """The one TLS context of this process: verification on, made once (it takes 20 ms and more)."""
    return ssl.create_default_context()


async def fetch(
    url: str, *, limits: Limits, etag: str = "", last_modified: str = "", headers: Mapping[str, str] | None = None
) -> Fetched:
    """The body behind a URL; raises SourceError with a short reason: refused address, timeout, too_large, http_503, …

    `headers` (lower-case names) go to the URL's own origin only, not along with a redirect to another one.
    """
    headers = {"user-agent": USER_AGENT, "accept": "*/*", **(headers or {}), "accept-encoding": "gzip"}
    if etag:
        headers["if-none-match"] = etag
    if last_modified:
        headers["if-modified-since"] = last_modified
    try:
        async with asyncio.timeout(limits.total_seconds):
            return await _follow(url, limits, headers)
    except TimeoutError as error:
        raise SourceError("timeout") from error
    except AddressRefused as error:
        raise SourceError(f"refused: {error.reason}") from error
    except httpx.TimeoutException as error:
        raise SourceError("timeout") from error
    except (httpx.ProtocolError, httpx.InvalidURL) as error:
        raise SourceError("protocol") from error
    except httpx.HTTPError as error:
        raise SourceError("tls" if is_tls_error(error) else "unreachable") from error


async def _follow(text: str, limits: Limits, headers: Mapping[str, str]) -> Fetched:
    allow_http = limits.allow_http or limits.allow_loopback
    url = parse_url(text, allow_http=allow_http)
    timeout = httpx.Timeout(limits.total_seconds)
    async with httpx.AsyncClient(verify=tls(), trust_env=False, timeout=timeout, http2=False) as client:
        for _ in range(MAX_REDIRECTS + 1):
            response = await client.send(await _pinned(client, url, limits, headers), stream=True)
            async with aclosing(response):
                if response.status_code not in _REDIRECTS:
                    return await _read(response, limits)
                location = response.headers.get("location", "")
            # From https only to https, whatever was allowed at the start.
            there = parse_url(urljoin(str(url), location), allow_http=allow_http and url.scheme == "http")
            if (there.scheme, there.host, there.port) != (url.scheme, url.host, url.port):
                headers = {name: value for name, value in headers.items() if name in _EVERYWHERE}
            url = there
    raise SourceError("too_many_redirects")


async def _pinned(client: httpx.AsyncClient, url: Url, limits: Limits, headers: Mapping[str, str]) -> httpx.Request:
    """The request to the vetted address; Host and SNI still name the host."""
    ip, port = await guard.resolve(
        url.host, url.port, allow_loopback=limits.allow_loopback, networks=limits.networks, lookup=limits.lookup
    )
    if url.scheme == "http" and not limits.allow_http and refusal(ip) != Refusal.LOOPBACK:
        raise AddressRefused(Refusal.SCHEME)
    address = f"[{ip}]" if ":" in ip else ip
    return client.build_request(
        "GET",
        f"{url.scheme}://{address}:{port}{url.target}",
        headers={**headers, "host": url.authority},
        extensions={} if is_address(url.host) else {"sni_hostname": url.host},
    )


async def _read(response: httpx.Response, limits: Limits) -> Fetched:
    status = response.status_code
    etag, last_modified = (response.headers.get(name, "")[:256] for name in ("etag", "last-modified"))
    if status == 304:
        return Fetched(status=status, body=b"", etag=etag, last_modified=last_modified)
    if not 200 <= status < 300:
        wait = retry_after(response.headers.get("retry-after", ""), clock.now())
        raise SourceError(f"http_{status}", status=status, retry_after_seconds=wait)
    body = await read_body(response, limits)
    return Fetched(status=status, body=body, etag=etag, last_modified=last_modified)


async def read_body(response: httpx.Response, limits: Limits) -> bytes:
    """The body, inflated within the limits; raises SourceError too_large or encoding."""
    inflate = _inflater(response.headers.get("content-encoding", ""))
    body, raw_bytes = bytearray(), 0
    async for chunk in response.aiter_raw():
        raw_bytes += len(chunk)
        if raw_bytes > limits.max_raw_bytes:
            raise SourceError("too_large")
        body += _inflated(inflate, chunk, limits.max_decoded_bytes - len(body) + 1) if inflate else chunk
        if len(body) > limits.max_decoded_bytes:
            raise SourceError("too_large")
    if inflate and not inflate.eof:
        raise SourceError("encoding")
    return bytes(body)


def unpacked(body: bytes, encoding: str, max_bytes: int) -> bytes:
    """A whole body as its Content-Encoding says; raises SourceError too_large or encoding."""
    inflate = _inflater(encoding)
    if inflate is None:
        return body
    out = _inflated(inflate, body, max_bytes + 1)
    if len(out) > max_bytes:
        raise SourceError("too_large")
    if not inflate.eof or inflate.unused_data:
        raise SourceError("encoding")
    return out


def _inflater(encoding: str) -> zlib._Decompress | None:
    """What undoes an encoding; None where there is nothing to undo. Raises SourceError for one that nobody asked for."""
    named = encoding.strip().lower()
    if named not in ("identity", "gzip", "x-gzip", ""):
        raise SourceError("encoding")
    return zlib.decompressobj(_GZIP) if "gzip" in named else None


def _inflated(inflate: zlib._Decompress, chunk: bytes, room: int) -> bytes:
    """At most `room` bytes: a bomb stops there, before it fills the memory."""
    if inflate.eof:  # a second member would be dropped unsaid
        raise SourceError("encoding")
    try:
        return inflate.decompress(chunk, room)
    except zlib.error as error:
        raise SourceError("encoding") from error


def is_tls_error(error: BaseException | None) -> bool:
    """Whether TLS failed at the ground of an error."""
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return True
        error = error.__cause__ or error.__context__
    return False
