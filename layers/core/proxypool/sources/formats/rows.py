"""What goes into a format and what comes out: options, rows, and the closed set of reasons for a rejected row. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final
from typing import Protocol as Shape

from proxypool.errors import SourceError
from proxypool.network.address import Refusal
from proxypool.proxies.proxy import Protocol, Proxy

MAX_DOCUMENT_BYTES: Final = 20_000_000  # of a document that can only be read as a whole


class Rejection(StrEnum):
    """Why a row is rejected, besides the reasons that an address has (`Refusal`)."""

    NO_ADDRESS = "no_address"  # nothing in it looks like a proxy
    NO_PORT = "no_port"
    TOO_LONG = "too_long"
    CONTROL = "control"  # control characters: binary, terminal escapes
    CREDENTIALS = "credentials"  # a user name or password that no handshake carries
    NOT_JSON = "not_json"  # or JSON with doubled keys, NaN or endless numbers
    TOO_DEEP = "too_deep"
    NO_PATH = "no_path"  # the dotted path leads nowhere
    CORRUPT = "corrupt"  # a broken, encrypted or unknown archive
    NESTED = "nested"  # an archive inside of an archive
    OTHER = "other"  # what a third party's format says and we do not know


REASONS: Final = frozenset(str(reason) for reason in (*Refusal, *Rejection))
"""Every reason that a rejected row can have."""


class Readable(Shape):
    """A file that is open for reading bytes; nothing but `read` is asked of it."""

    def read(self, size: int = -1, /) -> bytes:
        """At most `size` bytes, all with -1; empty only at the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a list is to be read. `path` is a dotted path into JSON, "" for the whole."""

    default_protocol: Protocol = Protocol.HTTP  # of rows that name none
    path: str = ""
    max_unpacked_bytes: int = MAX_DOCUMENT_BYTES  # of an archive


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """What a list, or a part of it, holds. Addresses are canonical but not vetted: a list may name 127.0.0.1.

    `repeated` counts rows that name a proxy of the same list again.
    """

    proxies: tuple[Proxy, ...] = ()
    rejected: Mapping[str, int] = field(default_factory=Counter)
    repeated: int = 0
    format: str = ""

    @property
    def rows(self) -> int:
        """All that was looked at."""
        return len(self.proxies) + sum(self.rejected.values()) + self.repeated


class Format(Shape):
    """A format reads a file from where it stands and never raises for what it holds."""

    def __call__(self, file: Readable, options: Options, /) -> Iterator[Parsed]:
        """The list in parts, so that a long one is never in memory as a whole."""


def merged(parts: Iterable[Parsed]) -> Parsed:
    """All parts as one: each proxy once, in the list's order."""
    found: dict[Proxy, None] = {}
    rejected: Counter[str] = Counter()
    total, name = 0, ""
    for part in parts:
        found |= dict.fromkeys(part.proxies)
        rejected.update(part.rejected)
        total += len(part.proxies) + part.repeated
        name = name or part.format
    return Parsed(proxies=tuple(found), rejected=rejected, repeated=total - len(found), format=name)


def closed(rejected: Mapping[str, int]) -> Counter[str]:
    """The counts by reasons of the closed set alone."""
    out: Counter[str] = Counter()
    for reason, number in rejected.items():
        out[str(reason) if reason in REASONS else Rejection.OTHER.value] += number
    return out


def read_document(file: Readable) -> bytes:
    """The rest of a file; raises SourceError where it is too large to be read as a whole."""
    pieces, size = [], 0
    while piece := file.read(1 << 20):
        size += len(piece)
        if size > MAX_DOCUMENT_BYTES:
            raise SourceError("too_large")
        pieces.append(piece)
    return b"".join(pieces)
