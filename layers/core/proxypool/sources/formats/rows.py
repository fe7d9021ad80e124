"""Input and output of a format: options, parse results, and the closed set of rejection reasons. Pure."""

from __future__ import annotations

import typing
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from proxypool.errors import SourceError
from proxypool.network.address import Refusal
from proxypool.proxies.proxy import Protocol, Proxy

MAX_DOCUMENT_BYTES: Final = 20_000_000  # of a document that must be parsed as a whole


class Rejection(StrEnum):
    """Why a row is rejected, in addition to the reasons of an address (`Refusal`)."""

    NO_ADDRESS = "no_address"  # contains nothing like a proxy
    NO_PORT = "no_port"
    TOO_LONG = "too_long"
    CONTROL = "control"  # control characters: binary, terminal escapes
    CREDENTIALS = "credentials"  # a user name or password that cannot be sent
    NOT_JSON = "not_json"  # includes duplicate keys, NaN and infinite numbers
    TOO_DEEP = "too_deep"
    NO_PATH = "no_path"  # nothing at the dotted path
    CORRUPT = "corrupt"  # a damaged, encrypted or unsupported archive
    NESTED = "nested"  # an archive inside an archive
    OTHER = "other"  # an unknown reason from an installed format


REJECTION_REASONS: Final = frozenset(str(reason) for reason in (*Refusal, *Rejection))
"""All reasons for a rejected row."""


class BinaryReader(typing.Protocol):
    """A binary file open for reading; only `read` is used."""

    def read(self, size: int = -1, /) -> bytes:
        """At most `size` bytes, all if -1; empty only at the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Parser options. `path` is a dotted path into JSON; "" for the whole document."""

    default_protocol: Protocol = Protocol.HTTP  # of rows without a protocol
    path: str = ""
    max_unpacked_bytes: int = MAX_DOCUMENT_BYTES  # of an archive


@dataclass(frozen=True, slots=True, kw_only=True)
class ParseResult:
    """The proxies of a list or a part of it. Addresses are canonical but not vetted: a list may contain 127.0.0.1.

    `rejected` counts rows by reason, `repeated` rows with a proxy that was in the list before.
    """

    proxies: tuple[Proxy, ...] = ()
    rejected: Mapping[str, int] = field(default_factory=Counter)
    repeated: int = 0
    format: str = ""

    @property
    def rows(self) -> int:
        """The number of all rows."""
        return len(self.proxies) + sum(self.rejected.values()) + self.repeated


class Format(typing.Protocol):
    """Signature of a format: parses a file from its current position and never raises for its content."""

    def __call__(self, file: BinaryReader, options: Options, /) -> Iterator[ParseResult]:
        """The list in parts, so that a long one is never in memory as a whole."""


def merge_results(parts: Iterable[ParseResult]) -> ParseResult:
    """All parts in one result, without duplicate proxies, in order."""
    proxies: dict[Proxy, None] = {}
    rejected: Counter[str] = Counter()
    total, format_name = 0, ""
    for part in parts:
        proxies |= dict.fromkeys(part.proxies)
        rejected.update(part.rejected)
        total += len(part.proxies) + part.repeated
        format_name = format_name or part.format
    return ParseResult(proxies=tuple(proxies), rejected=rejected, repeated=total - len(proxies), format=format_name)


def known_reasons(rejected: Mapping[str, int]) -> Counter[str]:
    """The counts with reasons of the closed set only; others count as OTHER."""
    counts: Counter[str] = Counter()
    for reason, count in rejected.items():
        counts[str(reason) if reason in REJECTION_REASONS else Rejection.OTHER.value] += count
    return counts


def read_document(file: BinaryReader) -> bytes:
    """The rest of a file; raises SourceError if it exceeds MAX_DOCUMENT_BYTES."""
    chunks, size = [], 0
    while chunk := file.read(1 << 20):
        size += len(chunk)
        if size > MAX_DOCUMENT_BYTES:
            raise SourceError("too_large")
        chunks.append(chunk)
    return b"".join(chunks)
