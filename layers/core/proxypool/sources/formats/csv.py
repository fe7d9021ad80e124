"""CSV and TSV, with a header (in any order, with any further columns) or without one."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Final

from proxypool.proxies.proxy import Proxy
from proxypool.sources.formats.columns import SAMPLE, Table, has_header
from proxypool.sources.formats.line import CONTROL
from proxypool.sources.formats.rows import Options, Parsed, Readable, Rejection
from proxypool.sources.formats.text import MAX_ROW_BYTES, blocks

_DELIMITERS: Final = ",;\t|"


def parse(file: Readable, options: Options) -> Iterator[Parsed]:
    """The proxies of a table; a cell never spans lines, so that one stray quote costs one row."""
    table: Table | None = None
    delimiter = ""
    for text in blocks(file):
        found: list[Proxy] = []
        rejected: Counter[str] = Counter()
        rows = _lines(text, rejected)
        if table is None:
            sample = list(islice(rows, SAMPLE + 1))
            delimiter = _delimiter(sample)
            cells = [_cells(line, delimiter) for line in sample]
            table = Table(cells)
            for row in cells[table.first_row :]:
                table.read(row, options.default_protocol, found, rejected)
        for line in rows:
            table.read(_cells(line, delimiter), options.default_protocol, found, rejected)
        yield Parsed(proxies=tuple(found), rejected=rejected)


def is_csv(head: str) -> bool:
    """Whether a text's first row names an address and its port."""
    first = next(_lines(head, Counter()), "")
    return has_header(_cells(first, _delimiter([first]))) and any(sign in first for sign in _DELIMITERS)


def _lines(text: str, rejected: Counter[str]) -> Iterator[str]:
    """Rows without blank lines and comments."""
    for line in text.split("\n"):
        if len(line) > MAX_ROW_BYTES:
            rejected[Rejection.TOO_LONG] += 1
        elif CONTROL.search(line):
            rejected[Rejection.CONTROL] += 1
        elif line.strip() and not line.lstrip().startswith("#"):
            yield line


def _delimiter(lines: list[str]) -> str:
    """The sign that stands in most lines, and most often."""
    counts = {
        sign: (sum(sign in line for line in lines), sum(line.count(sign) for line in lines)) for sign in _DELIMITERS
    }
    return max(counts, key=lambda sign: counts[sign])


def _cells(line: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=delimiter, skipinitialspace=True), [])
    except csv.Error:
        return line.split(delimiter)
