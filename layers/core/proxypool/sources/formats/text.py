"""Decodes bytes to text in blocks of lines: any encoding, any line ending, one block in memory at a time."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import Final

from proxypool.sources.formats.rows import BinaryReader

BLOCK_BYTES: Final = 1 << 15
MAX_ROW_BYTES: Final = 65_536  # the rest of a longer line is skipped
_UTF16_BOMS: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def decode_blocks(file: BinaryReader) -> Iterator[str]:
    """Whole lines, many at a time, separated by line feeds. A line that is too long is cut, but still exceeds
    MAX_ROW_BYTES.
    """
    head = file.read(BLOCK_BYTES)
    to_utf8 = _utf16_decoder(head) if head.startswith(_UTF16_BOMS) else None
    rest, chunk, skipping = b"", head.removeprefix(codecs.BOM_UTF8), False
    while chunk:
        if to_utf8:
            chunk = to_utf8.decode(chunk).encode("utf-8", "replace")
        chunk = chunk.replace(b"\r", b"\n") if b"\r" in chunk else chunk
        if skipping:
            _, newline, chunk = chunk.partition(b"\n")
            skipping = not newline
        complete, newline, rest = (rest + chunk).rpartition(b"\n")
        if len(rest) > MAX_ROW_BYTES:
            complete, newline, rest, skipping = complete + newline + rest[: MAX_ROW_BYTES + 1], b"\n", b"", True
        if newline:
            yield decode(complete)
        chunk = file.read(BLOCK_BYTES)
    if rest:
        yield decode(rest)


def decode(raw: bytes) -> str:
    """Decodes text of any encoding: UTF-16 by its byte order mark, else UTF-8, else UTF-8 or Latin-1 for each line."""
    if raw.startswith(_UTF16_BOMS):
        return raw.decode("utf-16", "replace")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return "\n".join(_decode_line(line) for line in raw.split(b"\n"))


def _decode_line(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError:
        return line.decode("latin-1")  # decodes any byte


def _utf16_decoder(first: bytes) -> codecs.IncrementalDecoder:
    return codecs.getincrementaldecoder("utf-16")("replace")
