"""One bounded HTTP GET: each redirect target is vetted and pinned, 5 MB raw, 20 MB decoded, one total deadline."""

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
from proxypool.network.address import (
    FORBIDDEN_NETWORKS,
    Networks,
    Refusal,
    Url,
    is_address,
    parse_http_url,
    refusal_reason,
)

MAX_RAW_BYTES: Final = 5_000_000
MAX_DECODED_BYTES: Final = 20_000_000
_CROSS_ORIGIN_HEADERS: Final = frozenset({"user-agent", "accept", "accept-encoding"})  # also sent to another origin
MAX_REDIRECTS: Final = 3
USER_AGENT: Final = "proxypool/0.1"
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_GZIP: Final = 16 + zlib.MAX_WBITS


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResult:
    """The response. `status` is 2xx, or 304 with an empty body."""

    status: int
    body: bytes
    etag: str
    last_modified: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchLimits:
    """Limits of one fetch, and the addresses that it may connect to."""

    total_seconds: float = 30.0
    allow_http: bool = False
    allow_loopback: bool = False
    networks: Networks = FORBIDDEN_NETWORKS
    lookup: guard.Lookup = guard.system_lookup
    max_raw_bytes: int = MAX_RAW_BYTES
    max_decoded_bytes: int = MAX_DECODED_BYTES


@cache
def tls_context() -> ssl.SSLContext:
    """The TLS context of this process, with verification; creating one takes 20 ms or more."""
    return ssl.create_default_context()


async def fetch(
    url: str, *, limits: FetchLimits, etag: str = "", last_modified: str = "", headers: Mapping[str, str] | None = None
) -> FetchResult:
    """Fetches a URL; raises SourceError with a short reason: refused: …, timeout, too_large, http_503, …

    `headers` (lower-case names) are sent to the URL's own origin only, not to another one after a redirect.
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


async def _follow(url_text: str, limits: FetchLimits, headers: Mapping[str, str]) -> FetchResult:
    allow_http = limits.allow_http or limits.allow_loopback
    url = parse_http_url(url_text, allow_http=allow_http)
    timeout = httpx.Timeout(limits.total_seconds)
    async with httpx.AsyncClient(verify=tls_context(), trust_env=False, timeout=timeout, http2=False) as client:
        for _ in range(MAX_REDIRECTS + 1):
            response = await client.send(await _build_pinned_request(client, url, limits, headers), stream=True)
            async with aclosing(response):
                if response.status_code not in _REDIRECTS:
                    return await _read(response, limits)
                location = response.headers.get("location", "")
            # After https only https, even if http is permitted.
            next_url = parse_http_url(urljoin(str(url), location), allow_http=allow_http and url.scheme == "http")
            if (next_url.scheme, next_url.host, next_url.port) != (url.scheme, url.host, url.port):
                headers = {name: value for name, value in headers.items() if name in _CROSS_ORIGIN_HEADERS}
            url = next_url
    raise SourceError("too_many_redirects")


async def _build_pinned_request(
    client: httpx.AsyncClient, url: Url, limits: FetchLimits, headers: Mapping[str, str]
) -> httpx.Request:
    """The request to the vetted address; Host and SNI contain the host name."""
    ip, port = await guard.resolve_vetted(
        url.host, url.port, allow_loopback=limits.allow_loopback, networks=limits.networks, lookup=limits.lookup
    )
    if url.scheme == "http" and not limits.allow_http and refusal_reason(ip) != Refusal.LOOPBACK:
        raise AddressRefused(Refusal.SCHEME)
    address = f"[{ip}]" if ":" in ip else ip
    return client.build_request(
        "GET",
        f"{url.scheme}://{address}:{port}{url.target}",
        headers={**headers, "host": url.authority},
        extensions={} if is_address(url.host) else {"sni_hostname": url.host},
    )


async def _read(response: httpx.Response, limits: FetchLimits) -> FetchResult:
    status = response.status_code
    etag, last_modified = (response.headers.get(name, "")[:256] for name in ("etag", "last-modified"))
    if status == 304:
        return FetchResult(status=status, body=b"", etag=etag, last_modified=last_modified)
    if not 200 <= status < 300:
        wait = retry_after(response.headers.get("retry-after", ""), clock.now())
        raise SourceError(f"http_{status}", status=status, retry_after_seconds=wait)
    body = await read_body(response, limits)
    return FetchResult(status=status, body=body, etag=etag, last_modified=last_modified)


async def read_body(response: httpx.Response, limits: FetchLimits) -> bytes:
    """The body, decoded within the limits; raises SourceError too_large or encoding."""
    decompressor = _decompressor(response.headers.get("content-encoding", ""))
    body, raw_bytes = bytearray(), 0
    async for chunk in response.aiter_raw():
        raw_bytes += len(chunk)
        if raw_bytes > limits.max_raw_bytes:
            raise SourceError("too_large")
        body += _decompress(decompressor, chunk, limits.max_decoded_bytes - len(body) + 1) if decompressor else chunk
        if len(body) > limits.max_decoded_bytes:
            raise SourceError("too_large")
    if decompressor and not decompressor.eof:
        raise SourceError("encoding")
    return bytes(body)


def decode_body(body: bytes, encoding: str, max_bytes: int) -> bytes:
    """Decodes a whole body by its Content-Encoding; raises SourceError too_large or encoding."""
    decompressor = _decompressor(encoding)
    if decompressor is None:
        return body
    decoded = _decompress(decompressor, body, max_bytes + 1)
    if len(decoded) > max_bytes:
        raise SourceError("too_large")
    if not decompressor.eof or decompressor.unused_data:
        raise SourceError("encoding")
    return decoded


def _decompressor(encoding: str) -> zlib._Decompress | None:
    """A decompressor for the Content-Encoding; None for identity. Raises SourceError for an encoding that was not
    requested.
    """
    name = encoding.strip().lower()
    if name not in ("identity", "gzip", "x-gzip", ""):
        raise SourceError("encoding")
    return zlib.decompressobj(_GZIP) if "gzip" in name else None


def _decompress(decompressor: zlib._Decompress, chunk: bytes, max_bytes: int) -> bytes:
    """Decompresses at most `max_bytes`, which bounds the memory that a decompression bomb can take."""
    if decompressor.eof:  # a second gzip member would be lost silently
        raise SourceError("encoding")
    try:
        return decompressor.decompress(chunk, max_bytes)
    except zlib.error as error:
        raise SourceError("encoding") from error


def is_tls_error(error: BaseException | None) -> bool:
    """True if a TLS error is in the chain of causes."""
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return True
        error = error.__cause__ or error.__context__
    return False
