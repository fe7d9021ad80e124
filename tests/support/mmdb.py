"""Writes a MaxMind database (format 2.0) of one network, 198.51.0.0/16, which the real reader can read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

_BITS = [int(bit) for bit in f"{198:08b}{51:08b}"]
_WIDE = {"node_count": 6, "autonomous_system_number": 6, "build_epoch": 9}  # uint32 and uint64; the others are uint16
_MARK = b"\xab\xcd\xefMaxMind.com"


def write_database(path: Path, record: dict[str, Any]) -> None:
    """Writes a file in which only the addresses of 198.51.0.0/16 have a record, this one."""
    nodes = len(_BITS)
    tree = b""
    for index, bit in enumerate(_BITS):
        next_node = index + 1 if index + 1 < nodes else nodes + 16  # the record is first in the data section
        pair = (nodes, next_node) if bit else (next_node, nodes)  # `nodes` itself: no record
        tree += b"".join(number.to_bytes(3, "big") for number in pair)
    about = {
        "node_count": nodes, "record_size": 24, "ip_version": 4, "database_type": "Test", "languages": ["en"],
        "binary_format_major_version": 2, "binary_format_minor_version": 0, "build_epoch": 1, "description": {"en": "test"},
    }  # fmt: skip
    path.write_bytes(tree + bytes(16) + _encoded(record) + _MARK + _encoded(about))


def _encoded(value: Any, kind: int = 5) -> bytes:
    if isinstance(value, dict):
        items = (_encoded(name) + _encoded(item, _WIDE.get(name, 5)) for name, item in value.items())
        return _head(7, len(value)) + b"".join(items)
    if isinstance(value, list):
        return _head(11, len(value)) + b"".join(map(_encoded, value))
    if isinstance(value, int):
        raw = value.to_bytes(8, "big").lstrip(b"\0")
        return _head(kind, len(raw)) + raw
    return _head(2, len(value)) + str(value).encode()


def _head(kind: int, size: int) -> bytes:
    """The control byte (types above 7 have a second one); sizes under 29 only."""
    assert size < 29
    return bytes([kind << 5 | size]) if kind <= 7 else bytes([size, kind - 7])
