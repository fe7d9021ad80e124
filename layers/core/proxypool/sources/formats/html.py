"""HTML: the rows of tables, their columns told by the header or by what stands in them; else the page's text, line by line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from selectolax.lexbor import LexborHTMLParser, LexborNode

from proxypool.errors import AddressRefused
from proxypool.proxies.proxy import Proxy
from proxypool.sources.formats.columns import SAMPLE, Table
from proxypool.sources.formats.line import parse_line
from proxypool.sources.formats.rows import Options, Parsed, Readable, Rejection, read_document
from proxypool.sources.formats.text import decode


def parse(file: Readable, options: Options) -> Iterator[Parsed]:
    """The proxies of a page; a page without any is one rejected row."""
    tree = LexborHTMLParser(decode(read_document(file)))
    tree.strip_tags(["script", "style", "noscript", "template"])
    found: list[Proxy] = []
    rejected: Counter[str] = Counter()
    for table in tree.css("table"):
        if table.css_first("table table") is None:  # a table around tables is layout
            _read_table(table, options, found, rejected)
    if not found:
        rejected = Counter()
        _read_text(tree, options, found, rejected)
    yield Parsed(proxies=tuple(found), rejected=rejected)


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
