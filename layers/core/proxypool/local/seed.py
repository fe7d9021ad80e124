"""Gives a fresh stack its sources: the farm's list, or the reader's file."""

from __future__ import annotations

import hashlib
import ipaddress
import json
import re
import tomllib
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from proxypool import clock
from proxypool.errors import Invalid
from proxypool.local.emulator import Clients
from proxypool.local.process import LocalStackError
from proxypool.queues import ScrapeMessage, encode
from proxypool.settings import Settings
from proxypool.sources.api import from_request
from proxypool.sources.record import Source
from proxypool.sources.table import SourceTable

CALL_SECONDS = 30
_PATH_FIELDS = ("path",)
_HOST = re.compile(r"(?:@|//|^)\[?([0-9A-Fa-f.:]*?)\]?:\d")


def call(api_url: str, method: str, path: str, body: Any = None) -> Any:
    """One call of the local API; the answer as JSON, None for an empty one. Raises LocalStackError with the problem."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(  # noqa: S310  always http on loopback
        f"{api_url}{path}", data=data, method=method, headers={"Content-Type": "application/json"}
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=CALL_SECONDS) as answer:
            return json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        text = error.read().decode(errors="replace")[:500]
        raise LocalStackError(f"{method} {path} was answered with {error.code}: {text}") from error
    except OSError as error:
        raise LocalStackError(f"{method} {path} was not answered: {error}") from error


def farm_source(farm_file: Path) -> dict[str, Any]:
    """The source that lists the farm's proxies."""
    manifest = json.loads(farm_file.read_text())
    return {"path": manifest["list_file"], "parser": "lines", "tags": ["demo"]}


def read_sources(file: Path) -> list[dict[str, Any]]:
    """The sources in the reader's file: tables `[[source]]` of a .toml, or any other file taken as one list of lines.

    Relative paths are relative to the file. Raises LocalStackError, one line for the reader.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise LocalStackError(f"{file} cannot be read: {error}") from error
    if file.suffix != ".toml":
        return [{"path": str(file.resolve()), "parser": "lines"}]
    try:
        sources = tomllib.loads(text).get("source")
    except tomllib.TOMLDecodeError as error:
        raise LocalStackError(f"{file} is not TOML: {error}") from error
    if not isinstance(sources, list) or not sources:
        raise LocalStackError(f"{file} has no [[source]] table")
    return [_absolute(source, file.parent) for source in sources]


def is_loopback_only(sources: list[dict[str, Any]]) -> bool:
    """Whether every source is a list at hand whose proxies are all on loopback: then the loopback judge serves them."""
    return all(_only_loopback(_text(source)) for source in sources)


def seed(outputs: Mapping[str, str], clients: Clients, sources: list[dict[str, Any]]) -> int:
    """Adds the sources that the stack does not have yet, and has all of them scraped now; returns how many are new.

    Written as the API writes them, without waking a function for it. Raises LocalStackError naming a wrong field.
    """
    table, new = SourceTable(outputs["SourcesTable"]), 0
    for source in sources:
        made = _made({"id": _id(source), **source})
        new += table.put_new(made)
        message = ScrapeMessage(source_id=made.source_id)
        clients("sqs").send_message(
            QueueUrl=outputs["ScrapeQueueUrl"], MessageBody=encode(message), MessageGroupId=made.source_id
        )
    return new


def _made(source: dict[str, Any]) -> Source:
    try:
        return from_request(source, settings=Settings(allow_loopback=True, allow_files=True), now=clock.now())
    except Invalid as error:
        raise LocalStackError(f"a source is not right: {error.problem()}") from error


def _id(source: dict[str, Any]) -> str:
    """The same for the same list, so that a second start finds it."""
    place = str(source.get("url") or source.get("path") or source.get("inline"))
    return f"local-{hashlib.sha256(place.encode()).hexdigest()[:16]}"


def _absolute(source: dict[str, Any], folder: Path) -> dict[str, Any]:
    return {name: str((folder / value).resolve()) if name in _PATH_FIELDS else value for name, value in source.items()}


def _text(source: dict[str, Any]) -> str:
    if "inline" in source:
        return str(source["inline"])
    try:
        return Path(source["path"]).read_text(encoding="utf-8") if "path" in source else ""
    except (OSError, UnicodeDecodeError):
        return ""


def _only_loopback(text: str) -> bool:
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return bool(lines) and all(_is_loopback(line) for line in lines)


def _is_loopback(line: str) -> bool:
    found = _HOST.search(line)
    try:
        return bool(found) and ipaddress.ip_address(found[1]).is_loopback  # type: ignore[index]
    except ValueError:
        return False
