"""Detects the format of a list from its first bytes; if that yields nothing, the list is parsed as lines."""

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
from proxypool.sources.formats.packed import PeekableReader
from proxypool.sources.formats.rows import Format, Options, ParseResult, merge_results, read_document
from proxypool.sources.formats.text import decode

_HTML_TAG: Final = re.compile(r"<(?:table|html|!doctype|body|head|pre|div)\b", re.IGNORECASE)
_PARSERS: Final[dict[str, Format]] = {
    "lines": lines.parse,
    "ndjson": json.parse_lines,
    "csv": csv.parse,
    "json": json.parse,
    "html": html.parse,
}


def parse(file: PeekableReader, options: Options) -> Iterator[ParseResult]:
    """Parses a list by its detected format. JSON and HTML are read as one document, and as lines if they contain no
    proxies.
    """
    name = detect_format(file.head)
    if name not in ("json", "html"):
        yield from _parse_as(name, file, options)
        return
    raw = read_document(file)
    result = merge_results(_parse_as(name, io.BytesIO(raw), options))
    if not result.proxies:
        as_lines = merge_results(_parse_as("lines", io.BytesIO(raw), options))
        if as_lines.proxies:
            result = as_lines
    yield result


def detect_format(head: bytes) -> str:
    """The name of the format that the first bytes of a list indicate."""
    text = decode(head).lstrip()
    first_char = text[:1]
    if first_char == "{":
        return _object_format(text)
    if first_char == "[":
        return "lines" if _is_line(text.partition("\n")[0]) else "json"
    if _HTML_TAG.search(text):
        return "html"
    return "csv" if csv.is_csv(text) else "lines"


def _object_format(text: str) -> str:
    """ "json" for one object over several lines, "ndjson" for one per line; the last line of the head may be incomplete."""
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


def _parse_as(name: str, file: PeekableReader | io.BytesIO, options: Options) -> Iterator[ParseResult]:
    for part in _PARSERS[name](file, options):
        yield replace(part, format=name)
