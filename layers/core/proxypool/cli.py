"""The service's verbs of the command `proxypool`: the local stack, sources, the pool's state, dead letters, the judge."""

from __future__ import annotations

import json
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
    place: Annotated[str, typer.Argument(help="A URL, or a file of lines (its text is sent).")],
    name: str = "", parser: str = "auto", as_json: Json = False, url: Url = "",
) -> None:  # fmt: skip
    """Add a source."""
    is_url = "://" in place
    if not is_url and not Path(place).is_file():
        fail(USAGE, f"{place} is neither a URL nor a file", as_json)
    body = {"name": name, "parser": parser} | (
        {"url": place} if is_url else {"inline": Path(place).read_text(encoding="utf-8")}
    )
    _show(_ask("POST", "/sources", url, as_json, body), as_json)


@sources.command("list")
def list_sources(as_json: Json = False, url: Url = "") -> None:
    """List the sources and how they are."""
    _table(
        _ask("GET", "/sources", url, as_json),
        "sources",
        ("id", "name", "health", "rows", "valid", "last_scraped_at"),
        as_json,
    )


@sources.command()
def scrape(source_id: str, as_json: Json = False, url: Url = "") -> None:
    """Scrape a source now."""
    _show(_ask("POST", f"/sources/{source_id}/scrape", url, as_json), as_json)


@sources.command("test")
def try_source(
    place: Annotated[str, typer.Argument(help="A URL or a file.")],
    parser: Annotated[str, typer.Option(help="A format; json:path.to.rows for a part of a document.")] = "auto",
    protocol: Annotated[str, typer.Option(help="Of rows that name none.")] = "http",
    allow_http: Annotated[bool, typer.Option("--allow-http", help="The URL may be plain http.")] = False,
    allow_private: Annotated[bool, typer.Option("--allow-private", help="Private and loopback proxies count.")] = False,
    every: Annotated[bool, typer.Option("--all", help="All proxies, not ten.")] = False,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Show what a list would yield: nothing is stored, and no stack is needed."""
    from proxypool.sources import preview as dry

    with answers(as_json):
        try:
            found = dry.try_out(
                place, parser=parser, protocol=protocol, allow_http=allow_http, allow_private=allow_private, every=every
            )
        except dry.Unusable as error:
            fail(USAGE, str(error), as_json)
    typer.echo(json.dumps(found.as_json()) if as_json else "\n".join(found.lines()))


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
        typer.echo("\t".join(str(row.get(column, "")) for column in columns))
    return None
