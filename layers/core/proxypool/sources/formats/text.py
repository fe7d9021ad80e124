"""From bytes to text, line by line and block by block: any encoding, any line end, never more than a block in memory."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import Final

from proxypool.sources.formats.rows import Readable

BLOCK_BYTES: Final = 1 << 15
MAX_ROW_BYTES: Final = 65_536  # what follows in a longer line is skipped
_UTF16_MARKS: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def blocks(file: Readable) -> Iterator[str]:
    """Whole lines, many at a time, ended by line feeds. A line that is too long comes cut, still longer than allowed."""
    first = file.read(BLOCK_BYTES)
    to_utf8 = _utf16(first) if first.startswith(_UTF16_MARKS) else None
    rest, piece, skipping = b"", first.removeprefix(codecs.BOM_UTF8), False
    while piece:
        if to_utf8:
            piece = to_utf8.decode(piece).encode("utf-8", "replace")
        piece = piece.replace(b"\r", b"\n") if b"\r" in piece else piece
        if skipping:
            _, end, piece = piece.partition(b"\n")
            skipping = not end
        whole, end, rest = (rest + piece).rpartition(b"\n")
        if len(rest) > MAX_ROW_BYTES:
            whole, end, rest, skipping = whole + end + rest[: MAX_ROW_BYTES + 1], b"\n", b"", True
        if end:
            yield decode(whole)
        piece = file.read(BLOCK_BYTES)
    if rest:
        yield decode(rest)


def decode(raw: bytes) -> str:
    """Text of whatever encoding: UTF-16 by its mark, else UTF-8, else line by line UTF-8 or Latin-1."""
    if raw.startswith(_UTF16_MARKS):
        return raw.decode("utf-16", "replace")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return "\n".join(_decode_line(line) for line in raw.split(b"\n"))


def _decode_line(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError:
        return line.decode("latin-1")  # it reads any byte


def _utf16(first: bytes) -> codecs.IncrementalDecoder:
    return codecs.getincrementaldecoder("utf-16")("replace")
