"""Sources described in a .toml file, or by a location, and sent to the API: `proxypool sources add` and `sources import`."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx

from proxypool_client.errors import SourceFileError

UPLOADS: Final = "uploads/"  # prefix of uploaded lists in the pool's own bucket
MAX_INLINE_BYTES: Final = 48_000  # a request body is at most 64 KB; a longer list is uploaded
UPLOAD_SECONDS: Final = 300
_BLOCKS: Final = "▁▂▃▄▅▆▇█"

Request = Callable[[str, str, Any], Any]
"""One call of the API, `(method, path, body)`; returns the JSON of the response."""


@dataclass(frozen=True, slots=True)
class Entry:
    """The body of POST /sources, and the file to upload as its list, if any."""

    body: dict[str, Any]
    upload: Path | None = None


def read(file: Path) -> list[Entry]:
    """The [[source]] tables of a .toml file; paths are relative to it. Raises SourceFileError."""
    try:
        sources = tomllib.loads(file.read_text(encoding="utf-8")).get("source")
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SourceFileError(f"{file} cannot be read: {error}") from error
    if not isinstance(sources, list) or not sources or not all(isinstance(source, dict) for source in sources):
        raise SourceFileError(f"{file} has no [[source]] table")
    return [_entry(dict(source), file.parent) for source in sources]


def from_location(location: str) -> Entry:
    """The entry of a URL or a file: a short file is sent as text, a large one uploaded. Raises SourceFileError for anything else."""
    if "://" in location:
        return Entry({"url": location})
    file = Path(location)
    if not file.is_file():
        raise SourceFileError(f"{location} is neither a URL nor a file")
    if file.stat().st_size > MAX_INLINE_BYTES:
        name = f"list-{hashlib.sha256(str(file.resolve()).encode()).hexdigest()[:12]}"
        return Entry({"id": name, "s3": UPLOADS + name}, file)
    try:
        return Entry({"inline": file.read_text(encoding="utf-8")})
    except UnicodeDecodeError as error:
        raise SourceFileError(f"{file} is not UTF-8 text") from error


def send(entries: list[Entry], request: Request, *, scrape: bool) -> Iterator[dict[str, Any]]:
    """Adds each source, or updates the one with its id, and uploads its list; yields the source as the API returns it.

    `scrape`: enabled sources are scraped at once instead of when they are due.
    """
    has_ids = any("id" in entry.body for entry in entries)
    known = {source["id"] for source in request("GET", "/sources", None)["sources"]} if has_ids else frozenset()
    for entry in entries:
        source = _send(entry, known, request)
        if scrape and source["enabled"]:
            request("POST", f"/sources/{source['id']}/scrape", None)
        yield source


def sparkline(counts: list[int]) -> str:
    """Counts as a bar chart of one line, e.g. ▇▇█▁."""
    highest = max(counts, default=0) or 1
    return "".join(_BLOCKS[round(count / highest * (len(_BLOCKS) - 1))] for count in counts)


def _send(entry: Entry, known: Set[str], request: Request) -> dict[str, Any]:
    source_id = entry.body.get("id", "")
    if source_id in known:
        changes = {name: value for name, value in entry.body.items() if name != "id"}
        source = request("PATCH", f"/sources/{source_id}", changes)
    else:
        source = request("POST", "/sources", entry.body)
    if entry.upload is not None:
        target = request("POST", f"/sources/{source['id']}/upload", None)
        _upload(target["url"], entry.upload)
    return dict(source)


def _upload(url: str, file: Path) -> None:
    try:
        with file.open("rb") as stream:
            httpx.put(url, content=stream, timeout=UPLOAD_SECONDS, trust_env=False).raise_for_status()
    except (OSError, httpx.HTTPError) as error:
        raise SourceFileError(f"{file} could not be uploaded ({type(error).__name__})") from error


def _entry(source: dict[str, Any], folder: Path) -> Entry:
    upload = source.pop("upload", None)
    if "serve" in source:  # `make up` serves this file as a URL; here its text is sent
        source["inline"] = (folder / source.pop("serve")).read_text(encoding="utf-8")
    if isinstance(source.get("path"), str):
        source["path"] = str((folder / source["path"]).resolve())
    return Entry(source, folder / upload if isinstance(upload, str) else None)
