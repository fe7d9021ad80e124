"""CSV and TSV, with a header (any order, any additional columns) or without one."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Final

from proxypool.proxies.proxy import Proxy
from proxypool.sources.formats.columns import SAMPLE_ROWS, TableReader, has_header
from proxypool.sources.formats.line import CONTROL_CHARACTERS
from proxypool.sources.formats.rows import BinaryReader, Options, ParseResult, Rejection
from proxypool.sources.formats.text import MAX_ROW_BYTES, decode_blocks

_DELIMITERS: Final = ",;\t|"


def parse(file: BinaryReader, options: Options) -> Iterator[ParseResult]:
    """Parses a table; a cell never spans lines, so that a stray quote affects one row only."""
    reader: TableReader | None = None
    delimiter = ""
    for text in decode_blocks(file):
        proxies: list[Proxy] = []
        rejected: Counter[str] = Counter()
        rows = _lines(text, rejected)
        if reader is None:
            sample = list(islice(rows, SAMPLE_ROWS + 1))
            delimiter = _delimiter(sample)
            cells = [_cells(line, delimiter) for line in sample]
            reader = TableReader(cells)
            for row in cells[reader.first_row :]:
                reader.read(row, options.default_protocol, proxies, rejected)
        for line in rows:
            reader.read(_cells(line, delimiter), options.default_protocol, proxies, rejected)
        yield ParseResult(proxies=tuple(proxies), rejected=rejected)


def is_csv(head: str) -> bool:
    """True if the first row of a text names columns for address and port."""
    first = next(_lines(head, Counter()), "")
    return has_header(_cells(first, _delimiter([first]))) and any(delimiter in first for delimiter in _DELIMITERS)


def _lines(text: str, rejected: Counter[str]) -> Iterator[str]:
    """Non-empty rows without comments; counts the rejected ones."""
    for line in text.split("\n"):
        if len(line) > MAX_ROW_BYTES:
            rejected[Rejection.TOO_LONG] += 1
        elif CONTROL_CHARACTERS.search(line):
            rejected[Rejection.CONTROL] += 1
        elif line.strip() and not line.lstrip().startswith("#"):
            yield line


def _delimiter(lines: list[str]) -> str:
    """The delimiter that occurs in most lines, and most often."""
    counts = {
        delimiter: (sum(delimiter in line for line in lines), sum(line.count(delimiter) for line in lines))
        for delimiter in _DELIMITERS
    }
    return max(counts, key=lambda delimiter: counts[delimiter])


def _cells(line: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=delimiter, skipinitialspace=True), [])
    except csv.Error:
        return line.split(delimiter)
