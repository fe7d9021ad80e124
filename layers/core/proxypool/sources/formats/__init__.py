"""The list formats: pure functions from bytes to proxies, and their registry. A format is one file here and one line below.

Third parties add theirs by the entry-point group `proxypool.formats`: a name and a function of `Format`'s shape.
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
from proxypool.sources.formats.packed import Peeked, unpacked
from proxypool.sources.formats.rows import (
    REASONS,
    Format,
    Options,
    Parsed,
    Readable,
    Rejection,
    closed,
    merged,
)

__all__ = [
    "AUTO", "REASONS", "Format", "Options", "Parsed", "Readable", "Rejection", "formats", "is_known", "merged", "parse", "read",
]  # fmt: skip
ENTRY_POINTS: Final = "proxypool.formats"
AUTO: Final = "auto"
PATH_MARK: Final = ":"  # `json:data.items`: the format, and a dotted path into it


@cache
def formats() -> dict[str, Callable[..., Iterator[Parsed]]]:
    """All formats by name, third parties' included; ours cannot be replaced."""
    from proxypool.sources.formats import auto, csv, html, json, lines

    theirs = {point.name: point.load() for point in entry_points(group=ENTRY_POINTS)}
    return theirs | {
        AUTO: auto.parse,
        "lines": lines.parse,
        "json": json.parse,
        "ndjson": json.parse_lines,
        "csv": csv.parse,
        "html": html.parse,
    }


def is_known(name: str) -> bool:
    """Whether a source may name this format; a dotted path may follow behind a colon."""
    return name.partition(PATH_MARK)[0] in formats()


def read(name: str, file: Readable, options: Options) -> Iterator[Parsed]:
    """The list in parts, unpacked; a row may come twice. Raises KeyError where no format has the name, SourceError where it is too large."""
    name, _, path = name.partition(PATH_MARK)
    return _read(name, formats()[name], Peeked(file), replace(options, path=path or options.path))


def parse(name: str, raw: bytes, *, default_protocol: Protocol) -> Parsed:
    """The proxies of a list, each once, in the list's order; raises as `read` does."""
    return merged(read(name, io.BytesIO(raw), Options(default_protocol=default_protocol)))


def _read(name: str, format_: Callable[..., Iterator[Parsed]], file: Peeked, options: Options) -> Iterator[Parsed]:
    try:
        for member in unpacked(file, options):
            for part in format_(member, options):
                yield replace(part, rejected=closed(part.rejected), format=part.format or name)
    except AddressRefused as refused:  # an archive that cannot be read further
        yield Parsed(rejected=closed({refused.reason: 1}), format="" if name == AUTO else name)
