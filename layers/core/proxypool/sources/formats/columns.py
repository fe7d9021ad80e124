"""Tables (CSV, HTML): which column is which, by the header where it says so, else by what stands in the columns. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from proxypool.errors import AddressRefused
from proxypool.network.address import is_address, parse_port
from proxypool.proxies.proxy import Protocol, Proxy
from proxypool.sources.formats import fields
from proxypool.sources.formats.line import SCHEMES, parse_line

SAMPLE: Final = 50  # rows that are looked at to tell the columns apart
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
    """Whether a row names columns: an address and its port, or whole proxies."""
    at = fields.layout(tuple(cells))
    return bool(at.line) or bool(at.host and (at.port or len(cells) == 1))


class Table:
    """Reads a table's rows once its columns are known."""

    def __init__(self, sample: Sequence[Cells]) -> None:
        """`sample` is the beginning of the table, header included."""
        header = sample[0] if sample else ()
        if has_header(header):
            self.first_row, self._names = 1, _distinct(header)
        else:
            self._names = _guessed(sample[:SAMPLE])
            self.first_row = int(len(sample) > 1 and _is_title(header, self._names))

    def read(self, cells: Cells, protocol: Protocol, found: list[Proxy], rejected: Counter[str]) -> None:
        """Adds a row's proxies, or its reason."""
        row = dict(zip(self._names, (cell.strip() for cell in cells[:MAX_CELLS]), strict=False))
        try:
            found.extend(fields.proxies(row, protocol))
        except AddressRefused as refused:
            rejected[refused.reason] += 1


def _distinct(header: Cells) -> list[str]:
    """The header's names; a repeated one counts the first time."""
    seen: dict[str, int] = {}
    return [
        name if seen.setdefault(name, number) == number else f"\0{number}"
        for number, name in enumerate(header[:MAX_CELLS])
    ]


def _guessed(rows: Sequence[Cells]) -> list[str]:
    """Names for the columns of a table that has none: the addresses', the ports' (right of them, or the likeliest), the protocols'."""
    width = min(MAX_CELLS, max((len(row) for row in rows), default=0))
    columns = [[row[number].strip() for row in rows if number < len(row)] for number in range(width)]
    names = [f"\0{number}" for number in range(width)]
    whole, hosts = (_most(columns, test) for test in (_is_whole, is_address))
    if hosts is None and whole is None:
        return names
    if hosts is None or (whole is not None and _share(columns[whole], _is_whole) > _share(columns[hosts], is_address)):
        names[whole or 0] = "proxy"
    else:
        names[hosts] = "host"
        ports = [number for number in range(width) if number != hosts and _share(columns[number], _is_port) >= 0.8]
        if ports:
            names[min(ports, key=lambda number: (-_common(columns[number]), (number - hosts) % width))] = "port"
    protocols = _most(columns, _is_protocol)
    if protocols is not None and names[protocols].startswith("\0"):
        names[protocols] = "protocol"
    return names


def _most(columns: Sequence[Cells], test: object) -> int | None:
    """The first column most of whose cells pass, None where no cell does."""
    assert callable(test)
    shares = [_share(column, test) for column in columns]
    return shares.index(max(shares)) if shares and max(shares) > 0 else None


def _share(column: Cells, test: object) -> float:
    assert callable(test)
    filled = [cell for cell in column if cell]
    return sum(map(bool, map(test, filled))) / len(filled) if filled else 0.0


def _common(column: Cells) -> float:
    """How many of a column's numbers are ports that proxies usually have, in fifths: a latency is not one of them."""
    return round(5 * _share(column, _COMMON_PORTS.__contains__))


def _is_title(header: Cells, names: Sequence[str]) -> bool:
    """A first row without any address or port, over rows that have them."""
    known = [cell.strip() for name, cell in zip(names, header, strict=False) if name in ("host", "port", "proxy")]
    return bool(known) and not any(any(sign.isdigit() for sign in cell) for cell in known)


def _is_port(cell: str) -> bool:
    try:
        parse_port(cell)
    except AddressRefused:
        return False
    return True


def _is_whole(cell: str) -> bool:
    if ":" not in cell:
        return False
    try:
        parse_line(cell, Protocol.HTTP)
    except AddressRefused:
        return False
    return True


def _is_protocol(cell: str) -> bool:
    return cell.lower() in SCHEMES
