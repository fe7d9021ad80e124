"""The service's verbs of the command `proxypool`: the local stack, sources, the pool's state, dead letters, the judge."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from proxypool_client.cli import USAGE, Json, Url, answers, fail

from proxypool.local.commands import local_app

app = typer.Typer()
sources = typer.Typer(help="The lists that feed the pool.", no_args_is_help=True)
dlq = typer.Typer(help="Messages that failed for good.", no_args_is_help=True)
app.add_typer(local_app)
app.add_typer(sources, name="sources")
app.add_typer(dlq, name="dlq")


@sources.command("add")
def add(
    place: Annotated[str, typer.Argument(help="A URL, or a file (its text is sent; a long one is uploaded).")],
    name: str = "", parser: str = "auto", as_json: Json = False, url: Url = "",
) -> None:  # fmt: skip
    """Add a source; it is scraped within half an hour, or by `sources scrape`."""
    from proxypool.sources import files

    with _one_line(as_json):
        entry = files.of_place(place)
        entry.body.update(name=name, parser=parser)
        _show(next(files.send([entry], _asker(url, as_json), scrape=False)), as_json)


@sources.command("import")
def import_sources(
    file: Annotated[Path, typer.Argument(help="A .toml file; sources.example.toml has every kind.")],
    as_json: Json = False, url: Url = "",
) -> None:  # fmt: skip
    """Add the sources of a file, or change those that are there, and scrape them."""
    from proxypool.sources import files

    with _one_line(as_json):
        done = list(files.send(files.read(file), _asker(url, as_json), scrape=True))
    _table({"sources": done}, "sources", ("id", "name", "health"), as_json)


@sources.command("list")
def list_sources(as_json: Json = False, url: Url = "") -> None:
    """List the sources and how they are; the last column is the good rows of the last lists."""
    from proxypool.sources import files

    found = _ask("GET", "/sources", url, as_json)
    if not as_json:
        for source in found["sources"]:
            source["trend"] = files.trend(source.get("trend") or [])
    columns = ("id", "name", "health", "suspicion", "rows", "valid", "new", "alive_yield", "last_scraped_at", "last_error",
               "trend")  # fmt: skip
    _table(found, "sources", columns, as_json)


@sources.command()
def accept(source_id: str, as_json: Json = False, url: Url = "") -> None:
    """Take a source's list as right as it is now: its health is learnt anew."""
    _show(_ask("PATCH", f"/sources/{source_id}", url, as_json, {"accept": True}), as_json)


@sources.command()
def scrape(source_id: str, as_json: Json = False, url: Url = "") -> None:
    """Scrape a source now."""
    _show(_ask("POST", f"/sources/{source_id}/scrape", url, as_json), as_json)


@app.command()
def stats(as_json: Json = False, url: Url = "") -> None:
    """Show how the pool is."""
    _show(_ask("GET", "/stats/pool", url, as_json), as_json)


@app.command()
def proxies(
    proxy_id: Annotated[str, typer.Argument(help="One proxy, explained; none: a list.")] = "",
    status: Annotated[str, typer.Option(help="unchecked, active, dead or retired.")] = "",
    as_json: Json = False, url: Url = "",
) -> None:  # fmt: skip
    """List proxies, or explain one: why this score, why (not) leasable, when next."""
    if proxy_id:
        return _show(_ask("GET", f"/proxies/{proxy_id}", url, as_json), as_json)
    found = _ask("GET", "/proxies" + (f"?status={status}" if status else ""), url, as_json)
    return _table(found, "proxies", ("id", "proxy", "status", "country", "anonymity", "score"), as_json)


@dlq.command("list")
def list_dead_letters(as_json: Json = False) -> None:
    """Show the messages that failed for good, with their reasons."""
    from proxypool import dlq as letters

    with answers(as_json):
        found = [letters.as_json(letter) for letter in letters.peek(letters.local_queues())]
    _table({"letters": found}, "letters", ("queue", "message_id", "body", "reason"), as_json)


@dlq.command()
def redrive(most: Annotated[int, typer.Option(help="At most so many.")] = 1_000, as_json: Json = False) -> None:
    """Send them back to their queues."""
    from proxypool import dlq as letters

    with answers(as_json):
        count = letters.redrive(letters.local_queues(), most=most)
    _show({"redriven": count}, as_json)


@contextmanager
def _one_line(as_json: bool) -> Iterator[None]:
    """Says what is wrong with a file in one line."""
    from proxypool.errors import SourceError

    try:
        yield
    except SourceError as error:
        fail(USAGE, error.reason, as_json)


def _asker(url: str, as_json: bool) -> Callable[[str, str, Any], Any]:
    return lambda method, path, body: _ask(method, path, url, as_json, body)


def _ask(method: str, path: str, url: str, as_json: bool, body: Any = None) -> Any:
    from proxypool_client.pool import Pool

    with answers(as_json), Pool(url) as pool:
        return pool.api.request(method, path, body)


def _show(value: dict[str, Any], as_json: bool) -> None:
    if as_json:
        return typer.echo(json.dumps(value))
    for name, item in value.items():
        typer.echo(f"{name}\t{json.dumps(item) if isinstance(item, dict | list) else item}")
    return None


def _table(value: dict[str, Any], name: str, columns: tuple[str, ...], as_json: bool) -> None:
    """Tab-separated, full ids: what a pipe can read."""
    if as_json:
        return typer.echo(json.dumps(value))
    for row in value[name]:
        typer.echo("\t".join("" if row.get(column) is None else str(row[column]) for column in columns))
    return None
