"""`proxypool sources test`: parses a list and shows the result, without a stack and without storing anything."""

from __future__ import annotations

import asyncio
import io
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from proxypool.errors import AddressRefused, ProxyPoolError, SourceError
from proxypool.network.address import (
    FORBIDDEN_NETWORKS,
    Networks,
    Refusal,
    Url,
    is_address,
    is_own_endpoint,
    parse_http_url,
    refusal_reason,
    without_reasons,
)
from proxypool.network.fetch import FetchLimits, fetch
from proxypool.proxies.proxy import Protocol, Proxy
from proxypool.sources.formats import AUTO, BinaryReader, Options, formats, is_known, parse_stream

SAMPLE_SIZE: Final = 10
MAX_FILE_BYTES: Final = 100_000_000
REJECTED_NETWORKS: Final[Networks] = tuple(
    entry for entry in FORBIDDEN_NETWORKS if entry[1] is not Refusal.DOCUMENTATION
)
"""Networks whose rows a preview rejects. Unlike a scrape it accepts documentation addresses, for examples from manuals."""
_OWN: Final = (Refusal.PRIVATE, Refusal.LOOPBACK)


class PreviewFailed(ProxyPoolError):
    """The list cannot be previewed; the message is for the user."""


@dataclass(slots=True)
class Preview:
    """The result of parsing a list. `rows` counts all rows, `repeated` the duplicates."""

    format: str = ""
    rows: int = 0
    valid: int = 0
    repeated: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    proxies: list[Proxy] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """The output of `--json`; passwords are masked."""
        return {
            "format": self.format,
            "rows": self.rows,
            "valid": self.valid,
            "repeated": self.repeated,
            "rejected": dict(self.rejected),
            "proxies": [_masked(proxy) for proxy in self.proxies],
        }

    def lines(self) -> list[str]:
        """The human-readable output."""
        reasons = ", ".join(f"{number} {reason}" for reason, number in self.rejected.most_common())
        return [
            f"format    {self.format or 'none found'}",
            f"rows      {self.rows}",
            f"valid     {self.valid}",
            f"repeated  {self.repeated}",
            f"rejected  {sum(self.rejected.values())}{f' ({reasons})' if reasons else ''}",
            *(f"  {proxy}" for proxy in self.proxies),
        ]


def preview(
    file: BinaryReader,
    options: Options,
    *,
    parser: str = AUTO,
    networks: Networks = REJECTED_NETWORKS,
    keep_all: bool = False,
) -> Preview:
    """Parses a whole list; the result has its first ten proxies, or all. Raises KeyError for an unknown parser, SourceError."""
    out, seen = Preview(), set[int]()
    for part in parse_stream(parser, file, options):
        out.format = out.format or part.format
        out.rows += part.rows
        out.repeated += part.repeated
        out.rejected.update(part.rejected)
        for proxy in part.proxies:
            _add(proxy, out, seen, networks, None if keep_all else SAMPLE_SIZE)
    return out


def preview_location(
    location: str, *, parser: str = AUTO, protocol: str = Protocol.HTTP, allow_http: bool = False,
    allow_private: bool = False, keep_all: bool = False,
) -> Preview:  # fmt: skip
    """Previews a URL or a file; raises PreviewFailed with a message of one line."""
    if not is_known(parser):
        raise PreviewFailed(f"unknown format {parser}; known are: " + ", ".join(sorted(formats())))
    if protocol not in list(Protocol):
        raise PreviewFailed(f"unknown protocol {protocol}; known are: " + ", ".join(Protocol))
    networks = without_reasons(REJECTED_NETWORKS, *_OWN) if allow_private else REJECTED_NETWORKS
    try:
        with open_list(
            location,
            allow_http=allow_http,
            networks=without_reasons(FORBIDDEN_NETWORKS, *_OWN) if allow_private else FORBIDDEN_NETWORKS,
        ) as (file, max_bytes):
            options = Options(default_protocol=Protocol(protocol), max_unpacked_bytes=max_bytes)
            return preview(file, options, parser=parser, networks=networks, keep_all=keep_all)
    except SourceError as error:
        raise PreviewFailed(f"the list cannot be read: {error.reason}") from error


@contextmanager
def open_list(
    location: str, *, allow_http: bool = False, networks: Networks = FORBIDDEN_NETWORKS
) -> Iterator[tuple[BinaryReader, int]]:
    """Opens a file or fetches a URL; yields it with the maximum unpacked size of an archive. Raises SourceError.

    A loopback URL is allowed, because the user can reach it anyway; redirects to one are not.
    """
    if "://" in location:
        limits = FetchLimits(allow_http=allow_http, allow_loopback=_is_loopback(location), networks=networks)
        yield io.BytesIO(asyncio.run(fetch(location, limits=limits)).body), limits.max_decoded_bytes
        return
    try:
        if Path(location).stat().st_size > MAX_FILE_BYTES:
            raise SourceError("too_large")
        with Path(location).open("rb") as file:
            yield file, MAX_FILE_BYTES
    except OSError as error:
        raise SourceError("unreadable") from error


def _add(proxy: Proxy, out: Preview, seen: set[int], networks: Networks, max_shown: int | None) -> None:
    reason = refusal_reason(proxy.host, networks=networks) if is_address(proxy.host) else ""
    if not reason and is_own_endpoint(proxy.host, proxy.port):
        reason = Refusal.OWN_ENDPOINT
    if reason:
        out.rejected[str(reason)] += 1
        return
    key = hash(proxy)  # 64 bits per row: a million rows fit into the memory of a small function
    if key in seen:
        out.repeated += 1
        return
    seen.add(key)
    out.valid += 1
    if max_shown is None or len(out.proxies) < max_shown:
        out.proxies.append(proxy)


def _masked(proxy: Proxy) -> dict[str, Any]:
    return {
        "protocol": proxy.protocol.value,
        "host": proxy.host,
        "port": proxy.port,
        "username": proxy.username,
        "password_masked": None if proxy.password is None else "***",
    }


def _is_loopback(location: str) -> bool:
    try:
        url: Url = parse_http_url(location, allow_http=True)
    except AddressRefused:
        return False
    return is_address(url.host) and refusal_reason(url.host) == Refusal.LOOPBACK
