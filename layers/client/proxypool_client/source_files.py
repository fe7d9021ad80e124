"""Sources described in a .toml file, or by a location, and sent to the API.

Used by `proxypool sources add` and `sources import`, and by a local stack for the lists that it starts with.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx

from proxypool_client.errors import ApiError, LeaseLost, SourceFileError
from proxypool_client.tables import UPLOADS

MAX_INLINE_BYTES: Final = 48_000  # a request body is at most 64 KB; a longer list is uploaded
UPLOAD_SECONDS: Final = 300
LOCATIONS: Final = ("url", "inline", "s3", "path")  # a source has exactly one of these fields
_NOT_RETURNED: Final = ("inline", "headers")
_FILE_KEYS: Final = ("upload", "serve")  # keys of a [[source]] table that are not fields of the API
_TOP_KEYS: Final = frozenset({"source", "acknowledge", "judge"})
_BLOCKS: Final = "▁▂▃▄▅▆▇█"

Request = Callable[[str, str, Any], Any]
"""One call of the API, `(method, path, body)`; returns the JSON of the response."""


@dataclass(frozen=True, slots=True)
class Entry:
    """The body of POST /sources; `upload` is the file to upload as its list, `serve` the file that a local stack serves as a URL.

    An entry with an id is added or updated; one without is always added, with an id that the API generates.
    """

    body: dict[str, Any]
    upload: Path | None = None
    serve: Path | None = None

    @property
    def label(self) -> str:
        """The name of the source in messages."""
        return next(
            (str(self.body[name]) for name in ("name", "id", "url", "path") if self.body.get(name)), "inline list"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """A .toml file of sources. `acknowledged` and `judge` (its [judge] table, or None) are used by local stacks only."""

    entries: list[Entry]
    acknowledged: bool = False
    judge: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Sent:
    """A source as the API returned it; `is_changed`: it existed, and a field that the API shows was different."""

    entry: Entry
    source: dict[str, Any]
    is_changed: bool = field(default=False, kw_only=True)


def read(file: Path) -> SourceFile:
    """The [[source]] tables of a .toml file; their paths are relative to it. Each entry has an id, see `source_id`.

    Raises SourceFileError: the file cannot be read, has no [[source]] table or an unknown key, or two tables have one id.
    """
    try:
        document = tomllib.loads(read_text(file))
    except tomllib.TOMLDecodeError as error:
        raise SourceFileError(f"{file} is not valid TOML: {error}") from error
    sources = document.get("source")
    if not isinstance(sources, list) or not sources or not all(isinstance(source, dict) for source in sources):
        raise SourceFileError(f"{file} has no [[source]] table")
    if unknown := document.keys() - _TOP_KEYS:
        raise SourceFileError(f"{file}: unknown key at the top level: {', '.join(sorted(unknown))}")
    if any("acknowledge" in source for source in sources):
        raise SourceFileError(f"{file}: `acknowledge` must be at the top of the file, above the first [[source]]")
    entries = [_entry(source, file.parent) for source in sources]
    if len({entry.body["id"] for entry in entries}) < len(entries):
        raise SourceFileError(f"{file}: two sources have the same id, name or location")
    return SourceFile(entries=entries, acknowledged=document.get("acknowledge") is True, judge=document.get("judge"))


def entry_from_location(location: str) -> Entry:
    """The entry of a URL or a file: a short file is sent as text, a large one uploaded. Raises SourceFileError for anything else."""
    if "://" in location:
        return Entry({"url": location})
    file = Path(location)
    if not file.is_file():
        raise SourceFileError(f"{location} is neither a URL nor a file")
    if file.stat().st_size > MAX_INLINE_BYTES:
        name = f"list-{hashlib.sha256(str(file.resolve()).encode()).hexdigest()[:12]}"
        return Entry({"id": name, "s3": UPLOADS + name}, file)
    return Entry({"inline": read_text(file)})


def source_id(source: Mapping[str, Any]) -> str:
    """The id of a [[source]] table: its own, else a digest of its name or location, so that a second import updates it."""
    if source.get("id"):
        return str(source["id"])
    key = next((str(source[name]) for name in ("name", *LOCATIONS, *_FILE_KEYS) if source.get(name)), "")
    return f"source-{hashlib.sha256(key.encode()).hexdigest()[:16]}"


def send(entries: Iterable[Entry], request: Request, *, scrape: bool) -> Iterator[Sent]:
    """Adds each source, or updates the one with its id where a field differs, and uploads its list.

    `scrape`: enabled sources are scraped at once instead of at their next scheduled time, except those with a URL that are
    unchanged and were scraped without an error. Raises SourceFileError, or ApiError with the source's label in its message.
    """
    entries = list(entries)
    has_ids = any("id" in entry.body for entry in entries)
    existing = {source["id"]: source for source in request("GET", "/sources", None)["sources"]} if has_ids else {}
    for entry in entries:
        current = existing.get(entry.body.get("id", ""))
        try:
            sent = _send(entry, current, request)
            if scrape and sent.source["enabled"] and not _is_up_to_date(sent, current):
                request("POST", f"/sources/{sent.source['id']}/scrape", None)
        except ApiError as error:
            raise type(error)(
                error.status, {**error.problem, "detail": f"source {entry.label}: {error}"}, error.retry_after_seconds
            ) from error
        yield sent


def remove(ids: Iterable[str], request: Request) -> Iterator[dict[str, Any]]:
    """Removes sources; their proxies stay in the pool while they work. Yields each as it was; one that is gone is skipped."""
    for name in ids:
        try:
            source = request("GET", f"/sources/{name}", None)
            request("DELETE", f"/sources/{name}", None)
        except LeaseLost:  # the API's 404
            continue
        yield source


def changed_fields(current: Mapping[str, Any], body: Mapping[str, Any]) -> dict[str, Any]:
    """The body of the PATCH that makes a source of the API equal to `body`; empty where it is.

    A list's text and the values of headers are not returned by the API: they are always part of the change.
    """
    wanted = {**dict.fromkeys(LOCATIONS, ""), **body}  # a source has one location: the others are cleared
    return {
        name: value
        for name, value in wanted.items()
        if name != "id" and ((name in _NOT_RETURNED and value) or not _is_equal(current, name, value))
    }


def sparkline(counts: list[int]) -> str:
    """Counts as a bar chart of one line, e.g. ▇▇█▁."""
    highest = max(counts, default=0) or 1
    return "".join(_BLOCKS[round(count / highest * (len(_BLOCKS) - 1))] for count in counts)


def read_text(file: Path) -> str:
    """The text of a file; raises SourceFileError where it cannot be read or is not UTF-8."""
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise SourceFileError(f"{file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SourceFileError(f"{file} is not UTF-8 text") from error


def _send(entry: Entry, current: Mapping[str, Any] | None, request: Request) -> Sent:
    body = dict(entry.body)
    if entry.serve is not None:
        body["inline"] = read_text(entry.serve)
    fields = {} if current is None else changed_fields(current, body)
    is_changed = current is not None and not all(_is_equal(current, name, value) for name, value in fields.items())
    if current is None:
        source = request("POST", "/sources", body)
    else:
        source = request("PATCH", f"/sources/{current['id']}", fields) if fields else current
    if entry.upload is not None:
        target = request("POST", f"/sources/{source['id']}/upload", None)
        _upload(target["url"], entry.upload)
    return Sent(entry, dict(source), is_changed=is_changed)


def _is_equal(current: Mapping[str, Any], name: str, value: Any) -> bool:
    """Whether a field has this value, as far as the API returns it: of a list's text the length, of headers the names."""
    if name == "inline":
        return bool(current.get("inline_bytes", 0) == len(str(value).encode()))
    if name == "headers" and isinstance(value, list):
        return bool(current.get(name, []) == [str(line).partition(":")[0] for line in value])
    if isinstance(value, list):
        return bool(current.get(name, []) == sorted(map(str, value)))
    return bool((current.get(name) or "") == (value or ""))


def _is_up_to_date(sent: Sent, current: Mapping[str, Any] | None) -> bool:
    """Whether the list may wait for its schedule. The content behind another location than a URL may be new at every import."""
    is_known = current is not None and not sent.is_changed
    return is_known and bool(
        sent.source.get("url") and sent.source["last_success_at"] and not sent.source["last_error"]
    )


def _upload(url: str, file: Path) -> None:
    try:
        with file.open("rb") as stream:
            httpx.put(url, content=stream, timeout=UPLOAD_SECONDS, trust_env=False).raise_for_status()
    except (OSError, httpx.HTTPError) as error:
        raise SourceFileError(f"{file} could not be uploaded ({type(error).__name__})") from error


def _entry(source: Mapping[str, Any], folder: Path) -> Entry:
    files = {
        name: _absolute(source[name], folder) for name in ("path", *_FILE_KEYS) if isinstance(source.get(name), str)
    }
    resolved = {**source, **{name: str(file) for name, file in files.items()}}
    body = {name: value for name, value in resolved.items() if name not in _FILE_KEYS} | {"id": source_id(resolved)}
    return Entry(body, upload=files.get("upload"), serve=files.get("serve"))


def _absolute(path: str, folder: Path) -> Path:
    return (folder / Path(path).expanduser()).resolve()
