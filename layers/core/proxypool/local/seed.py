"""Gives a stack its sources over its own API: the farm's list, or the reader's, each only once however often it starts."""

from __future__ import annotations

import hashlib
import json
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from proxypool.local.lists import served
from proxypool.local.process import LocalStackError

CALL_SECONDS = 30
SEEDED_FILE = "sources.json"
PLACES = ("url", "inline", "s3", "path")
UPLOAD = "upload"  # the file that becomes the object of a source of kind s3; the API knows nothing of it

Body = dict[str, Any]


class ApiRefused(LocalStackError):
    """The API answered with an error: `status`, and the problem's words as the message."""

    def __init__(self, status: int, problem: Body) -> None:
        self.status, self.problem = status, problem
        wrong = "; ".join(f"{one.get('field')}: {one.get('message')}" for one in problem.get("errors", []))
        super().__init__(f"{problem.get('title', f'HTTP {status}')}{': ' + wrong if wrong else ''}")


def call(api_url: str, method: str, path: str, body: Any = None) -> Any:
    """One call of the local API; the answer as JSON, None for an empty one. Raises ApiRefused, or LocalStackError for none."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(  # noqa: S310  always http on loopback
        f"{api_url}{path}", data=data, method=method, headers={"Content-Type": "application/json"}
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=CALL_SECONDS) as answer:
            return json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        raise ApiRefused(error.code, _problem(error.read())) from error
    except OSError as error:
        raise LocalStackError(f"{method} {path} was not answered: {error}") from error


def farm_source(farm_file: Path) -> Body:
    """The source that lists the farm's proxies."""
    manifest = json.loads(farm_file.read_text())
    return {"name": "demo farm", "path": manifest["list_file"], "parser": "lines", "tags": ["demo"]}


def seed(api_url: str, sources: Sequence[Body], data: Path) -> list[str]:
    """Adds or changes these sources and has them scraped, removes what an earlier start added and this one does not name.

    Returns one line per thing done that the reader should know. Raises LocalStackError naming the source and its wrong field.
    """
    wanted = {source_id(source): served(source) for source in sources}
    if len(wanted) < len(sources):
        raise LocalStackError("two sources have one name (or id, or place): each needs its own")
    told = [line for name, source in wanted.items() if (line := _put(api_url, name, source))]
    told += [line for name in _seeded(data) if name not in wanted and (line := _remove(api_url, name))]
    (data / SEEDED_FILE).write_text(json.dumps(list(wanted)))
    return told


def source_id(source: Body) -> str:
    """The id of a source: its own, else made of its name or place, so that the next start finds it again."""
    if source.get("id"):
        return str(source["id"])
    known_by = next((str(source[name]) for name in ("name", *PLACES) if source.get(name)), "")
    return f"local-{hashlib.sha256(known_by.encode()).hexdigest()[:16]}"


def label(source: Body) -> str:
    """What a reader calls a source."""
    return str(source.get("name") or source.get("id") or source.get("url") or source.get("path") or "inline list")


def _put(api_url: str, name: str, source: Body) -> str:
    """Adds or changes one source and asks for a scrape; a list on the web that is known and well waits for its schedule."""
    told = ""
    try:
        try:
            call(api_url, "POST", "/sources", {**_body(source), "id": name})
        except ApiRefused as error:
            if error.status != 409:
                raise
            shown = call(api_url, "GET", f"/sources/{name}")
            if differs(shown, source):
                call(api_url, "PATCH", f"/sources/{name}", _changes(source))
                told = f"source {label(source)}: changed"
            elif source.get("url") and shown["last_success_at"] and not shown["last_error"]:
                return ""
        if source.get(UPLOAD):
            _upload(call(api_url, "POST", f"/sources/{name}/upload"), Path(source[UPLOAD]))
        if source.get("enabled", True):
            call(api_url, "POST", f"/sources/{name}/scrape")
    except ApiRefused as error:
        raise LocalStackError(f"source {label(source)}: {error}") from error
    return told


def differs(shown: Body, source: Body) -> bool:
    """Whether the file says something else than what the API shows; what it does not show (a list's text) counts as changed."""
    known = shown | {name: shown.get(name) or "" for name in PLACES}
    wanted = {name: sorted(value) if isinstance(value, list) else value for name, value in _changes(source).items()}
    return any(known.get(name) != value for name, value in wanted.items())


def _changes(source: Body) -> Body:
    """What a PATCH says: the other places are emptied, for a source has one."""
    return {**dict.fromkeys(PLACES, ""), **{name: value for name, value in _body(source).items() if name != "id"}}


def _body(source: Body) -> Body:
    return {name: value for name, value in source.items() if name != UPLOAD}


def _upload(there: Body, file: Path) -> None:
    request = urllib.request.Request(there["url"], data=file.read_bytes(), method=there["method"])  # noqa: S310  loopback
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        opener.open(request, timeout=CALL_SECONDS).close()
    except OSError as error:
        raise LocalStackError(f"{file} could not be uploaded: {error}") from error


def _remove(api_url: str, name: str) -> str:
    try:
        shown = call(api_url, "GET", f"/sources/{name}")
        call(api_url, "DELETE", f"/sources/{name}")
    except ApiRefused:  # removed by hand
        return ""
    return f"source {label(shown)}: no longer named, removed; its proxies stay while they work"


def _seeded(data: Path) -> list[str]:
    try:
        names: list[str] = json.loads((data / SEEDED_FILE).read_text())
    except (FileNotFoundError, ValueError):
        return []
    return names


def _problem(raw: bytes) -> Body:
    try:
        value = json.loads(raw)
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {"title": raw.decode(errors="replace")[:200]}
