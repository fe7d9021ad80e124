"""Archives: a gzip file or the files of a zip, decompressed while they are read, within a size limit."""

from __future__ import annotations

import gzip
import io
import lzma
import zipfile
import zlib
from collections.abc import Iterator
from typing import Final, cast

from proxypool.errors import AddressRefused, SourceError
from proxypool.sources.formats.rows import BinaryReader, Options, Rejection

GZIP: Final = b"\x1f\x8b"
ZIP: Final = b"PK\x03\x04"
MAX_MEMBERS: Final = 100
_ARCHIVE_ERRORS: Final = (
    OSError, EOFError, ValueError, RuntimeError, NotImplementedError, KeyError, IndexError,
    zlib.error, lzma.LZMAError, zipfile.BadZipFile,
)  # fmt: skip


class PeekableReader:
    """A reader whose first bytes are available in `head` and are read again."""

    def __init__(self, file: BinaryReader, size: int = 65_536) -> None:
        chunks = []
        while size > 0 and (chunk := file.read(size)):
            chunks.append(chunk)
            size -= len(chunk)
        self.head = b"".join(chunks)
        self._left, self._file = self.head, file

    def read(self, size: int = -1, /) -> bytes:
        """Like the `read` of a file."""
        if size < 0:
            rest, self._left = self._left, b""
            return rest + self._file.read()
        if self._left:
            chunk, self._left = self._left[:size], self._left[size:]
            return chunk
        return self._file.read(size)


class _Budget:
    """Remaining decompressed bytes of an archive, shared by its members."""

    def __init__(self, remaining_bytes: int) -> None:
        self.remaining_bytes = remaining_bytes


class _BoundedReader:
    """A reader over a compressed member; raises AddressRefused if it is corrupt, SourceError if it exceeds the budget."""

    def __init__(self, file: BinaryReader, budget: _Budget) -> None:
        self._file, self._budget = file, budget

    def read(self, size: int = -1, /) -> bytes:
        """Like the `read` of a file, but never more than the budget."""
        max_bytes = self._budget.remaining_bytes + 1
        try:
            chunk = self._file.read(max_bytes if size < 0 else min(size, max_bytes))
        except _ARCHIVE_ERRORS as error:
            raise AddressRefused(Rejection.CORRUPT) from error
        self._budget.remaining_bytes -= len(chunk)
        if self._budget.remaining_bytes < 0:
            raise SourceError("too_large")
        return chunk


def open_members(file: PeekableReader, options: Options) -> Iterator[PeekableReader]:
    """The file itself, or the members of an archive; raises AddressRefused for a corrupt or nested archive, SourceError
    if it is too large.
    """
    budget = _Budget(options.max_unpacked_bytes)
    if file.head.startswith(GZIP):
        members: Iterator[BinaryReader] = iter([cast(BinaryReader, gzip.GzipFile(fileobj=cast(io.BytesIO, file)))])
    elif file.head.startswith(ZIP):
        members = _zip_members(file)
    else:
        yield file
        return
    for member in members:
        reader = PeekableReader(_BoundedReader(member, budget))
        if reader.head.startswith((GZIP, ZIP)):
            raise AddressRefused(Rejection.NESTED)
        yield reader


def _zip_members(file: PeekableReader) -> Iterator[BinaryReader]:
    """A zip's directory is at its end, so the compressed bytes are read as a whole."""
    try:
        archive = zipfile.ZipFile(io.BytesIO(file.read()))
        entries = [info for info in archive.infolist() if not info.is_dir()]
    except _ARCHIVE_ERRORS as error:
        raise AddressRefused(Rejection.CORRUPT) from error
    if len(entries) > MAX_MEMBERS:
        raise SourceError("too_large")
    for entry in entries:
        try:
            yield cast(BinaryReader, archive.open(entry))
        except _ARCHIVE_ERRORS as error:
            raise AddressRefused(Rejection.CORRUPT) from error
