"""`proxypool sources test`: what a list would yield, without a stack and without keeping anything."""

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
    FORBIDDEN,
    Networks,
    Refusal,
    Url,
    is_address,
    is_own_endpoint,
    parse_url,
    refusal_reason,
    without_reasons,
)
from proxypool.network.fetch import FetchLimits, fetch
from proxypool.proxies.proxy import Protocol, Proxy
from proxypool.sources.formats import AUTO, Options, Readable, formats, is_known, read

SAMPLE: Final = 10
MAX_FILE_BYTES: Final = 100_000_000
SHOWN: Final[Networks] = tuple(entry for entry in FORBIDDEN if entry[1] is not Refusal.DOCUMENTATION)
"""Networks whose rows a dry run rejects. Examples from manuals are shown as what they stand for; a scrape refuses them."""
_OWN: Final = (Refusal.PRIVATE, Refusal.LOOPBACK)


class Unusable(ProxyPoolError):
    """There is nothing to preview; the text says why."""


@dataclass(slots=True)
class Preview:
    """What was found. `rows` counts all that was looked at, `repeated` those that name a proxy again."""

    format: str = ""
    rows: int = 0
    valid: int = 0
    repeated: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    proxies: list[Proxy] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """The answer of `--json`; passwords are masked."""
        return {
            "format": self.format,
            "rows": self.rows,
            "valid": self.valid,
            "repeated": self.repeated,
            "rejected": dict(self.rejected),
            "proxies": [_masked(proxy) for proxy in self.proxies],
        }

    def lines(self) -> list[str]:
        """The answer for people."""
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
    file: Readable, options: Options, *, parser: str = AUTO, networks: Networks = SHOWN, every: bool = False
) -> Preview:
    """Reads a whole list in parts and keeps ten of its proxies, or all. Raises KeyError for an unknown parser, SourceError."""
    out, seen = Preview(), set[int]()
    for part in read(parser, file, options):
        out.format = out.format or part.format
        out.rows += part.rows
        out.repeated += part.repeated
        out.rejected.update(part.rejected)
        for proxy in part.proxies:
            _take(proxy, out, seen, networks, SAMPLE if not every else None)
    return out


def try_out(
    place: str, *, parser: str = AUTO, protocol: str = Protocol.HTTP, allow_http: bool = False,
    allow_private: bool = False, every: bool = False,
) -> Preview:  # fmt: skip
    """The preview of a URL or a file; raises Unusable with one line that says why there is none."""
    if not is_known(parser):
        raise Unusable(f"no format is named {parser}: " + ", ".join(sorted(formats())))
    if protocol not in list(Protocol):
        raise Unusable(f"no protocol is named {protocol}: " + ", ".join(Protocol))
    own = without_reasons(SHOWN, *_OWN) if allow_private else SHOWN
    try:
        with opened(
            place, allow_http=allow_http, networks=without_reasons(FORBIDDEN, *_OWN) if allow_private else FORBIDDEN
        ) as (file, most):
            options = Options(default_protocol=Protocol(protocol), max_unpacked_bytes=most)
            return preview(file, options, parser=parser, networks=own, every=every)
    except SourceError as error:
        raise Unusable(f"the list cannot be read: {error.reason}") from error


@contextmanager
def opened(place: str, *, allow_http: bool = False, networks: Networks = FORBIDDEN) -> Iterator[tuple[Readable, int]]:
    """A file or the answer of a URL, and how many bytes an archive may unfold to; raises SourceError.

    A URL on this machine may be asked: whoever types it reaches it anyway. No redirect leads there.
    """
    if "://" in place:
        limits = FetchLimits(allow_http=allow_http, allow_loopback=_is_loopback(place), networks=networks)
        yield io.BytesIO(asyncio.run(fetch(place, limits=limits)).body), limits.max_decoded_bytes
        return
    try:
        if Path(place).stat().st_size > MAX_FILE_BYTES:
            raise SourceError("too_large")
        with Path(place).open("rb") as file:
            yield file, MAX_FILE_BYTES
    except OSError as error:
        raise SourceError("unreadable") from error


def _take(proxy: Proxy, out: Preview, seen: set[int], networks: Networks, most: int | None) -> None:
    reason = refusal_reason(proxy.host, networks=networks) if is_address(proxy.host) else ""
    if not reason and is_own_endpoint(proxy.host, proxy.port):
        reason = Refusal.OWN_ENDPOINT
    if reason:
        out.rejected[str(reason)] += 1
        return
    mark = hash(proxy)  # 64 bits stand for a row: a million rows stay below the memory of a small function
    if mark in seen:
        out.repeated += 1
        return
    seen.add(mark)
    out.valid += 1
    if most is None or len(out.proxies) < most:
        out.proxies.append(proxy)


def _masked(proxy: Proxy) -> dict[str, Any]:
    return {
        "protocol": proxy.protocol.value,
        "host": proxy.host,
        "port": proxy.port,
        "username": proxy.username,
        "password_masked": None if proxy.password is None else "***",
    }


def _is_loopback(place: str) -> bool:
    try:
        url: Url = parse_url(place, allow_http=True)
    except AddressRefused:
        return False
    return is_address(url.host) and refusal_reason(url.host) == Refusal.LOOPBACK
