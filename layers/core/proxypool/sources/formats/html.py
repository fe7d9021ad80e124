"""HTML: table rows, with columns identified by the header or content; otherwise the page's text, line by line."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

from selectolax.lexbor import LexborHTMLParser, LexborNode

from proxypool.errors import AddressRefused
from proxypool.proxies.proxy import Proxy
from proxypool.sources.formats.columns import SAMPLE_ROWS, TableReader
from proxypool.sources.formats.line import parse_line
from proxypool.sources.formats.rows import BinaryReader, Options, ParseResult, Rejection, read_document
from proxypool.sources.formats.text import decode

MAX_DEPTH: Final = 256  # the parser's time per tag grows with the depth; real pages stay below 50
_TAG: Final = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9]*)")
_NO_END_TAG: Final = frozenset(
    [
        "area",
        "base",
        "br",
        "col",
        "embed",
        "hr",
        "img",
        "input",
        "link",
        "meta",
        "source",
        "track",
        "wbr",
        "p",
        "tr",
        "td",
        "th",
        "tbody",
        "thead",
        "tfoot",
        "option",
    ]
)


def parse(file: BinaryReader, options: Options) -> Iterator[ParseResult]:
    """Parses a page; a page without proxies is one rejected row."""
    text = decode(read_document(file))
    if _depth(text) > MAX_DEPTH:
        yield ParseResult(rejected=Counter({Rejection.TOO_DEEP: 1}))
        return
    tree = LexborHTMLParser(text)
    tree.strip_tags(["script", "style", "noscript", "template"])
    proxies: list[Proxy] = []
    rejected: Counter[str] = Counter()
    for table in tree.css("table"):
        if all(inner == table for inner in table.css("table")):  # an outer table is page layout
            _read_table(table, options, proxies, rejected)
    if not proxies:
        rejected = Counter()
        _read_text(tree, options, proxies, rejected)
    yield ParseResult(proxies=tuple(proxies), rejected=rejected)


def _depth(text: str) -> int:
    """Upper bound of the nesting depth; elements without an end tag are ignored."""
    depth = max_depth = 0
    for closing, name in _TAG.findall(text):
        if name.lower() not in _NO_END_TAG:
            depth = max(0, depth - 1) if closing else depth + 1
            max_depth = max(max_depth, depth)
    return max_depth


def _read_table(table: LexborNode, options: Options, proxies: list[Proxy], rejected: Counter[str]) -> None:
    rows = [[cell.text(strip=True) for cell in row.css("td, th")] for row in table.css("tr")]
    rows = [row for row in rows if any(row)]
    reader = TableReader(rows[: SAMPLE_ROWS + 1])
    for row in rows[reader.first_row :]:
        reader.read(row, options.default_protocol, proxies, rejected)


def _read_text(tree: LexborHTMLParser, options: Options, proxies: list[Proxy], rejected: Counter[str]) -> None:
    """Proxies in the text of a page without tables; other lines are not counted as rows."""
    text = tree.body.text(separator="\n") if tree.body is not None else ""
    for line in filter(None, map(str.strip, text.split("\n"))):
        if ":" in line:
            try:
                proxies.append(parse_line(line, options.default_protocol))
            except AddressRefused:
                continue
    if not proxies:
        rejected[Rejection.NO_ADDRESS] += 1
