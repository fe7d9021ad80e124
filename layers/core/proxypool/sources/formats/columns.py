"""Tables (CSV, HTML): identifies the columns by the header, else by their content. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from proxypool.errors import AddressRefused
from proxypool.network.address import is_address, parse_port
from proxypool.proxies.proxy import Protocol, Proxy
from proxypool.sources.formats import fields
from proxypool.sources.formats.line import SCHEMES, parse_line

SAMPLE_ROWS: Final = 50  # rows that are inspected to identify the columns
MAX_CELLS: Final = 64
Cells = Sequence[str]
_COMMON_PORTS: Final = frozenset(
    [
        "80",
        "81",
        "443",
        "808",
        "999",
        "1080",
        "1081",
        "3128",
        "3129",
        "4145",
        "5678",
        "7777",
        "8000",
        "8080",
        "8081",
        "8085",
        "8088",
        "8118",
        "8443",
        "8888",
        "9050",
        "9999",
        "10808",
    ]
)


def has_header(cells: Cells) -> bool:
    """True if a row has names for address and port, or for whole proxies."""
    layout = fields.layout(tuple(cells))
    return bool(layout.line) or bool(layout.host and (layout.port or len(cells) == 1))


class TableReader:
    """Parses the rows of a table whose columns are identified from a sample."""

    def __init__(self, sample: Sequence[Cells]) -> None:
        """`sample` is the beginning of the table, including a header."""
        header = sample[0] if sample else ()
        if has_header(header):
            self.first_row, self._names = 1, _unique_names(header)
        else:
            self._names = _guess_names(sample[:SAMPLE_ROWS])
            self.first_row = int(len(sample) > 1 and _is_header_row(header, self._names))

    def read(self, cells: Cells, protocol: Protocol, proxies: list[Proxy], rejected: Counter[str]) -> None:
        """Adds a row's proxies, or its rejection reason."""
        row = dict(zip(self._names, (cell.strip() for cell in cells[:MAX_CELLS]), strict=False))
        try:
            proxies.extend(fields.parse_row(row, protocol))
        except AddressRefused as refused:
            rejected[refused.reason] += 1


def _unique_names(header: Cells) -> list[str]:
    """The header's names; only the first of equal names is used."""
    seen: dict[str, int] = {}
    return [
        name if seen.setdefault(name, number) == number else f"\0{number}"
        for number, name in enumerate(header[:MAX_CELLS])
    ]


def _guess_names(rows: Sequence[Cells]) -> list[str]:
    """Names for the columns of a table without a header: host, port (right of the host, or the most likely one),
    protocol.
    """
    width = min(MAX_CELLS, max((len(row) for row in rows), default=0))
    columns = [[row[number].strip() for row in rows if number < len(row)] for number in range(width)]
    names = [f"\0{number}" for number in range(width)]
    proxy_column, host_column = (_best_column(columns, test) for test in (_is_proxy, is_address))
    if host_column is None and proxy_column is None:
        return names
    if host_column is None or (
        proxy_column is not None and _share(columns[proxy_column], _is_proxy) > _share(columns[host_column], is_address)
    ):
        names[proxy_column or 0] = "proxy"
    else:
        names[host_column] = "host"
        port_columns = [
            number for number in range(width) if number != host_column and _share(columns[number], _is_port) >= 0.8
        ]
        if port_columns:
            likeliest = min(
                port_columns, key=lambda number: (-_common_port_share(columns[number]), (number - host_column) % width)
            )
            names[likeliest] = "port"
    protocol_column = _best_column(columns, _is_protocol)
    if protocol_column is not None and names[protocol_column].startswith("\0"):
        names[protocol_column] = "protocol"
    return names


def _best_column(columns: Sequence[Cells], test: object) -> int | None:
    """The index of the column with the largest share of matching cells; None if no cell matches."""
    assert callable(test)
    shares = [_share(column, test) for column in columns]
    return shares.index(max(shares)) if shares and max(shares) > 0 else None


def _share(column: Cells, test: object) -> float:
    assert callable(test)
    filled = [cell for cell in column if cell]
    return sum(map(bool, map(test, filled))) / len(filled) if filled else 0.0


def _common_port_share(column: Cells) -> float:
    """The share of cells that are common proxy ports, in fifths: distinguishes ports from latencies."""
    return round(5 * _share(column, _COMMON_PORTS.__contains__))


def _is_header_row(header: Cells, names: Sequence[str]) -> bool:
    """True for a first row that has no digits in the columns of addresses and ports."""
    cells = [cell.strip() for name, cell in zip(names, header, strict=False) if name in ("host", "port", "proxy")]
    return bool(cells) and not any(any(char.isdigit() for char in cell) for cell in cells)


def _is_port(cell: str) -> bool:
    try:
        parse_port(cell)
    except AddressRefused:
        return False
    return True


def _is_proxy(cell: str) -> bool:
    if ":" not in cell:
        return False
    try:
        parse_line(cell, Protocol.HTTP)
    except AddressRefused:
        return False
    return True


def _is_protocol(cell: str) -> bool:
    return cell.lower() in SCHEMES
