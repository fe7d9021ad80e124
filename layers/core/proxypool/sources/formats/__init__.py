"""The list formats: pure functions from bytes to proxies, and their registry. A format is one file here and one line
below.

Installed packages add formats through the entry-point group `proxypool.formats`: a name and a function with the
signature of `Format`.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from importlib.metadata import entry_points
from typing import Final

from proxypool.errors import AddressRefused
from proxypool.proxies.proxy import Protocol
from proxypool.sources.formats.packed import PeekableReader, open_members
from proxypool.sources.formats.rows import (
    REJECTION_REASONS,
    BinaryReader,
    Format,
    Options,
    ParseResult,
    Rejection,
    known_reasons,
    merge_results,
)

__all__ = [
    "AUTO",
    "REJECTION_REASONS",
    "BinaryReader",
    "Format",
    "Options",
    "ParseResult",
    "Rejection",
    "formats",
    "is_known",
    "merge_results",
    "parse",
    "parse_stream",
]  # fmt: skip
ENTRY_POINT_GROUP: Final = "proxypool.formats"
AUTO: Final = "auto"
PATH_SEPARATOR: Final = ":"  # `json:data.items`: the format and a dotted path


@cache
def formats() -> dict[str, Callable[..., Iterator[ParseResult]]]:
    """All formats by name, including those of installed packages, which cannot replace built-in ones."""
    from proxypool.sources.formats import auto, csv, html, json, lines

    installed = {point.name: point.load() for point in entry_points(group=ENTRY_POINT_GROUP)}
    return installed | {
        AUTO: auto.parse,
        "lines": lines.parse,
        "json": json.parse,
        "ndjson": json.parse_lines,
        "csv": csv.parse,
        "html": html.parse,
    }


def is_known(name: str) -> bool:
    """True for the name of a format, optionally with ":" and a dotted path."""
    return name.partition(PATH_SEPARATOR)[0] in formats()


def parse_stream(name: str, file: BinaryReader, options: Options) -> Iterator[ParseResult]:
    """Parses a list in parts, decompressing archives; a proxy may repeat.

    Raises KeyError for an unknown format, SourceError if the list is too large.
    """
    name, _, path = name.partition(PATH_SEPARATOR)
    return _read(name, formats()[name], PeekableReader(file), replace(options, path=path or options.path))


def parse(name: str, raw: bytes, *, default_protocol: Protocol) -> ParseResult:
    """The proxies of a list without duplicates, in order; raises like `read`."""
    return merge_results(parse_stream(name, io.BytesIO(raw), Options(default_protocol=default_protocol)))


def _read(
    name: str, format_: Callable[..., Iterator[ParseResult]], file: PeekableReader, options: Options
) -> Iterator[ParseResult]:
    try:
        for member in open_members(file, options):
            for part in format_(member, options):
                yield replace(part, rejected=known_reasons(part.rejected), format=part.format or name)
    except AddressRefused as refused:  # a corrupt archive
        yield ParseResult(rejected=known_reasons({refused.reason: 1}), format="" if name == AUTO else name)
