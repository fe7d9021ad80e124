"""Which format a list has, told by its beginning; where the guess yields nothing, lines have the last word."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from proxypool.errors import AddressRefused
from proxypool.proxies.proxy import Protocol
from proxypool.sources.formats import csv, html, json, lines
from proxypool.sources.formats.line import parse_line
from proxypool.sources.formats.packed import Peeked
from proxypool.sources.formats.rows import Format, Options, Parsed, merged, read_document
from proxypool.sources.formats.text import decode

_PAGE: Final = re.compile(r"<(?:table|html|!doctype|body|head|pre|div)\b", re.IGNORECASE)
_MEMBERS: Final[dict[str, Format]] = {
    "lines": lines.parse,
    "ndjson": json.parse_lines,
    "csv": csv.parse,
    "json": json.parse,
    "html": html.parse,
}


def parse(file: Peeked, options: Options) -> Iterator[Parsed]:
    """The list by the format that it seems to have. A document is tried as a whole first."""
    name = recognised(file.head)
    if name not in ("json", "html"):
        yield from _named(name, file, options)
        return
    raw = read_document(file)
    first = merged(_named(name, io.BytesIO(raw), options))
    if not first.proxies:
        second = merged(_named("lines", io.BytesIO(raw), options))
        if second.proxies:
            first = second
    yield first


def recognised(head: bytes) -> str:
    """A format's name for the first bytes of a list."""
    text = decode(head).lstrip()
    begin = text[:1]
    if begin == "{":
        return _objects(text)
    if begin == "[":
        return "lines" if _is_line(text.partition("\n")[0]) else "json"
    if _PAGE.search(text):
        return "html"
    return "csv" if csv.is_csv(text) else "lines"


def _objects(text: str) -> str:
    """One object over all lines, or one a line; the last line of the head may be cut."""
    rows = [line.strip() for line in text.split("\n") if line.strip()]
    if len(rows) == 1 or not json.is_json(rows[0]):
        return "json"
    return "ndjson" if all(row.startswith("{") for row in rows) else "lines"


def _is_line(text: str) -> bool:
    try:
        parse_line(text, Protocol.HTTP)
    except AddressRefused:
        return False
    return True


def _named(name: str, file: Peeked | io.BytesIO, options: Options) -> Iterator[Parsed]:
    for part in _MEMBERS[name](file, options):
        yield replace(part, format=name)
