"""`proxypool sources …`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from proxypool_client import source_files
from proxypool_client.cli.output import client_errors, show, table
from proxypool_client.cli.request import Json, Url, connected, path_part, request

COLUMNS = ("id", "name", "health", "suspicion", "rows", "valid", "new", "alive_yield", "last_scraped_at", "last_error",
           "trend")  # fmt: skip

app = typer.Typer(help="The lists that feed the pool.", no_args_is_help=True)


@app.command("add")
def add(
    location: Annotated[str, typer.Argument(help="A URL, or a file: its text is sent, a large file is uploaded.")],
    name: str = "", parser: str = "auto", as_json: Json = False, url: Url = "",
) -> None:  # fmt: skip
    """Add a source; it is scraped within half an hour, or at once by `sources scrape`."""
    with client_errors(as_json):
        entry = source_files.entry_from_location(location)
    entry.body.update(name=name, parser=parser)
    with connected(url, as_json) as api:
        (sent,) = source_files.send([entry], api.request, scrape=False)
    show(sent.source, as_json)


@app.command("import")
def import_sources(
    file: Annotated[Path, typer.Argument(help="A .toml file; sources.example.toml shows every kind.")],
    as_json: Json = False, url: Url = "",
) -> None:  # fmt: skip
    """Add or update the sources of a file, and scrape them; an unchanged URL is scraped at its next scheduled time."""
    with client_errors(as_json):
        entries = source_files.read(file).entries
    with connected(url, as_json) as api:
        sources = [sent.source for sent in source_files.send(entries, api.request, scrape=True)]
    table({"sources": sources}, "sources", ("id", "name", "health"), as_json)


@app.command("list")
def list_sources(as_json: Json = False, url: Url = "") -> None:
    """List the sources and their health; the last column charts the valid rows of recent scrapes."""
    answer = request("GET", "/sources", url, as_json)
    if not as_json:
        for source in answer["sources"]:
            source["trend"] = source_files.sparkline(source.get("trend") or [])
    table(answer, "sources", COLUMNS, as_json)


@app.command()
def accept(source_id: str, as_json: Json = False, url: Url = "") -> None:
    """Accept a source's current list as normal: its health baseline starts over."""
    show(request("PATCH", f"/sources/{path_part(source_id)}", url, as_json, {"accept": True}), as_json)


@app.command()
def scrape(source_id: str, as_json: Json = False, url: Url = "") -> None:
    """Scrape a source now."""
    show(request("POST", f"/sources/{path_part(source_id)}/scrape", url, as_json), as_json)
