"""Keeps the sources of a local stack in step with the user's file, or with the demo farm, over the stack's own API."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from proxypool_client import source_files
from proxypool_client.api import Api
from proxypool_client.source_files import Entry

from proxypool.local.file_server import serve_file

CALL_SECONDS = 75  # 30 s of them for the response: the function's first call loads its code
IDS_FILE = "sources.json"  # the ids that the last start sent


def demo_source(farm_file: Path) -> Entry:
    """The list of the demo farm's proxies; `farm_file` is the farm's manifest."""
    manifest = json.loads(farm_file.read_text())
    body = {"id": "demo-farm", "name": "demo farm", "path": manifest["list_file"], "parser": "lines", "tags": ["demo"]}
    return Entry(body)


def sync(api: Api, entries: Sequence[Entry], data: Path) -> Iterator[str]:
    """Adds or updates these sources and scrapes them, then removes those that an earlier start sent and this one does not.

    Yields a message per source that was changed or removed. Raises PoolError.
    """
    request = partial(api.request, seconds=CALL_SECONDS)
    previous = _previous_ids(data)
    sent = []
    for result in source_files.send(map(_with_url, entries), request, scrape=True):
        sent.append(result.source["id"])
        if result.is_changed:
            yield f"source {result.entry.label}: updated"
    for source in source_files.remove([name for name in previous if name not in sent], request):
        yield f"source {source['name'] or source['id']}: no longer listed, removed; its proxies stay while they work"
    (data / IDS_FILE).write_text(json.dumps(sent))


def _with_url(entry: Entry) -> Entry:
    """The entry with the URL of its file, if it has one to serve."""
    if entry.serve is None:
        return entry
    return Entry({**entry.body, "url": serve_file(entry.serve), "allow_http": True}, entry.upload)


def _previous_ids(data: Path) -> list[str]:
    try:
        ids: list[str] = json.loads((data / IDS_FILE).read_text())
    except (FileNotFoundError, ValueError):
        return []
    return ids
