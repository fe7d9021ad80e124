"""Sources in a file of the operator's, sent to the API: what `proxypool sources add` and `sources import` do."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx

from proxypool.errors import SourceError
from proxypool.sources.record import UPLOADS

MAX_INLINE_BYTES: Final = 48_000  # a request has 64 KB in all; a longer list is uploaded
PUT_SECONDS: Final = 300
_BLOCKS: Final = "▁▂▃▄▅▆▇█"

Ask = Callable[[str, str, Any], Any]
"""One call of the API: method, path, body; the answer's body."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A source as POST /sources takes it, and the file that is its list where that is uploaded."""

    body: dict[str, Any]
    upload: Path | None = None


def read(file: Path) -> list[Entry]:
    """The [[source]] tables of a .toml file, paths relative to it; raises SourceError, one line for the reader."""
    try:
        sources = tomllib.loads(file.read_text(encoding="utf-8")).get("source")
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SourceError(f"{file} cannot be read: {error}") from error
    if not isinstance(sources, list) or not sources or not all(isinstance(source, dict) for source in sources):
        raise SourceError(f"{file} has no [[source]] table")
    return [_entry(dict(source), file.parent) for source in sources]


def of_place(place: str) -> Entry:
    """A URL, or a file: its text where it is short, else an upload. Raises SourceError for what is neither."""
    if "://" in place:
        return Entry({"url": place})
    file = Path(place)
    if not file.is_file():
        raise SourceError(f"{place} is neither a URL nor a file")
    if file.stat().st_size > MAX_INLINE_BYTES:
        name = f"list-{hashlib.sha256(str(file.resolve()).encode()).hexdigest()[:12]}"
        return Entry({"id": name, "s3": UPLOADS + name}, file)
    try:
        return Entry({"inline": file.read_text(encoding="utf-8")})
    except UnicodeDecodeError as error:
        raise SourceError(f"{file} is no text in UTF-8") from error


def send(entries: list[Entry], ask: Ask, *, scrape: bool) -> Iterator[dict[str, Any]]:
    """Adds each source, or changes the one that has its id, and uploads its list; yields it as it then is.

    With `scrape`, enabled ones are scraped now instead of when they are due.
    """
    has_ids = any("id" in entry.body for entry in entries)
    known = {source["id"] for source in ask("GET", "/sources", None)["sources"]} if has_ids else frozenset()
    for entry in entries:
        made = _send(entry, known, ask)
        if scrape and made["enabled"]:
            ask("POST", f"/sources/{made['id']}/scrape", None)
        yield made


def trend(counts: list[int]) -> str:
    """Numbers as a line of blocks, e.g. ▇▇█▁."""
    most = max(counts, default=0) or 1
    return "".join(_BLOCKS[round(count / most * (len(_BLOCKS) - 1))] for count in counts)


def _send(entry: Entry, known: Set[str], ask: Ask) -> dict[str, Any]:
    source_id = entry.body.get("id", "")
    if source_id in known:
        changes = {name: value for name, value in entry.body.items() if name != "id"}
        made = ask("PATCH", f"/sources/{source_id}", changes)
    else:
        made = ask("POST", "/sources", entry.body)
    if entry.upload is not None:
        there = ask("POST", f"/sources/{made['id']}/upload", None)
        _put(there["url"], entry.upload)
    return dict(made)


def _put(url: str, file: Path) -> None:
    try:
        with file.open("rb") as stream:
            httpx.put(url, content=stream, timeout=PUT_SECONDS, trust_env=False).raise_for_status()
    except (OSError, httpx.HTTPError) as error:
        raise SourceError(f"{file} could not be uploaded ({type(error).__name__})") from error


def _entry(source: dict[str, Any], folder: Path) -> Entry:
    upload = source.pop("upload", None)
    if "serve" in source:  # what `make up` serves as a URL is sent as it is
        source["inline"] = (folder / source.pop("serve")).read_text(encoding="utf-8")
    if isinstance(source.get("path"), str):
        source["path"] = str((folder / source["path"]).resolve())
    return Entry(source, folder / upload if isinstance(upload, str) else None)
