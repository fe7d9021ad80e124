"""Archives: a gzip file or the files of a zip, inflated as they are read, never past the cap."""

from __future__ import annotations

import gzip
import io
import lzma
import zipfile
import zlib
from collections.abc import Iterator
from typing import Final, cast

from proxypool.errors import AddressRefused, SourceError
from proxypool.sources.formats.rows import Options, Readable, Rejection

GZIP: Final = b"\x1f\x8b"
ZIP: Final = b"PK\x03\x04"
MAX_MEMBERS: Final = 100
_BROKEN: Final = (
    OSError, EOFError, ValueError, RuntimeError, NotImplementedError, KeyError, IndexError,
    zlib.error, lzma.LZMAError, zipfile.BadZipFile,
)  # fmt: skip


class Peeked:
    """A file whose beginning was looked at and is read again."""

    def __init__(self, file: Readable, size: int = 65_536) -> None:
        pieces = []
        while size > 0 and (piece := file.read(size)):
            pieces.append(piece)
            size -= len(piece)
        self.head = b"".join(pieces)
        self._left, self._file = self.head, file

    def read(self, size: int = -1, /) -> bytes:
        """As a file does."""
        if size < 0:
            left, self._left = self._left, b""
            return left + self._file.read()
        if self._left:
            piece, self._left = self._left[:size], self._left[size:]
            return piece
        return self._file.read(size)


class _Budget:
    """What an archive may still unfold to."""

    def __init__(self, left: int) -> None:
        self.left = left


class _Inflated:
    """A member that is being read; AddressRefused where it is broken, SourceError where it is a bomb."""

    def __init__(self, file: Readable, budget: _Budget) -> None:
        self._file, self._budget = file, budget

    def read(self, size: int = -1, /) -> bytes:
        """As a file does, and never more than the budget."""
        most = self._budget.left + 1
        try:
            piece = self._file.read(most if size < 0 else min(size, most))
        except _BROKEN as error:
            raise AddressRefused(Rejection.CORRUPT) from error
        self._budget.left -= len(piece)
        if self._budget.left < 0:
            raise SourceError("too_large")
        return piece


def unpacked(file: Peeked, options: Options) -> Iterator[Peeked]:
    """The file itself, or what an archive holds; raises AddressRefused where that cannot be read."""
    budget = _Budget(options.max_unpacked_bytes)
    if file.head.startswith(GZIP):
        members: Iterator[Readable] = iter([cast(Readable, gzip.GzipFile(fileobj=cast(io.BytesIO, file)))])
    elif file.head.startswith(ZIP):
        members = _members(file)
    else:
        yield file
        return
    for member in members:
        inner = Peeked(_Inflated(member, budget))
        if inner.head.startswith((GZIP, ZIP)):
            raise AddressRefused(Rejection.NESTED)
        yield inner


def _members(file: Peeked) -> Iterator[Readable]:
    """A zip's directory stands at its end: the packed bytes are held as a whole."""
    try:
        archive = zipfile.ZipFile(io.BytesIO(file.read()))
        names = [entry for entry in archive.infolist() if not entry.is_dir()]
    except _BROKEN as error:
        raise AddressRefused(Rejection.CORRUPT) from error
    if len(names) > MAX_MEMBERS:
        raise SourceError("too_large")
    for name in names:
        try:
            yield cast(Readable, archive.open(name))
        except _BROKEN as error:
            raise AddressRefused(Rejection.CORRUPT) from error
