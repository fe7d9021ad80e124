"""HTML: the rows of tables, their columns told by the header or by what stands in them; else the page's text, line by line."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

from selectolax.lexbor import LexborHTMLParser, LexborNode

from proxypool.errors import AddressRefused
from proxypool.proxies.proxy import Proxy
from proxypool.sources.formats.columns import SAMPLE, Table
from proxypool.sources.formats.line import parse_line
from proxypool.sources.formats.rows import Options, Parsed, Readable, Rejection, read_document
from proxypool.sources.formats.text import decode

MAX_DEPTH: Final = 256  # the parser's time grows with the depth at every tag; pages stay below 50
_TAG: Final = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9]*)")
_UNCLOSED: Final = frozenset(
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


def parse(file: Readable, options: Options) -> Iterator[Parsed]:
    """The proxies of a page; a page without any is one rejected row."""
    text = decode(read_document(file))
    if _depth(text) > MAX_DEPTH:
        yield Parsed(rejected=Counter({Rejection.TOO_DEEP: 1}))
        return
    tree = LexborHTMLParser(text)
    tree.strip_tags(["script", "style", "noscript", "template"])
    found: list[Proxy] = []
    rejected: Counter[str] = Counter()
    for table in tree.css("table"):
        if all(inner == table for inner in table.css("table")):  # a table around tables is layout
            _read_table(table, options, found, rejected)
    if not found:
        rejected = Counter()
        _read_text(tree, options, found, rejected)
    yield Parsed(proxies=tuple(found), rejected=rejected)


def _depth(text: str) -> int:
    """How deep the elements may be nested at most; what closes itself does not count."""
    depth = deepest = 0
    for closing, name in _TAG.findall(text):
        if name.lower() not in _UNCLOSED:
            depth = max(0, depth - 1) if closing else depth + 1
            deepest = max(deepest, depth)
    return deepest


def _read_table(table: LexborNode, options: Options, found: list[Proxy], rejected: Counter[str]) -> None:
    rows = [[cell.text(strip=True) for cell in row.css("td, th")] for row in table.css("tr")]
    rows = [row for row in rows if any(row)]
    read = Table(rows[: SAMPLE + 1])
    for row in rows[read.first_row :]:
        read.read(row, options.default_protocol, found, rejected)


def _read_text(tree: LexborHTMLParser, options: Options, found: list[Proxy], rejected: Counter[str]) -> None:
    """Addresses in a page without a table of them; what else it says is no row."""
    text = tree.body.text(separator="\n") if tree.body is not None else ""
    for line in filter(None, map(str.strip, text.split("\n"))):
        if ":" in line:
            try:
                found.append(parse_line(line, options.default_protocol))
            except AddressRefused:
                continue
    if not found:
        rejected[Rejection.NO_ADDRESS] += 1
