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
proxies = typer.Typer(help="The proxies, and what the pool knows of them.", no_args_is_help=True)
dlq = typer.Typer(help="Messages that failed for good.", no_args_is_help=True)
app.add_typer(local_app)
app.add_typer(sources, name="sources")
app.add_typer(proxies, name="proxies")
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


@app.command()
def stats(as_json: Json = False, url: Url = "") -> None:
    """Show how the pool is."""
    _show(_ask("GET", "/stats/pool", url, as_json), as_json)


@proxies.command("list")
def list_proxies(
    status: Annotated[str, typer.Option(help="unchecked, active, dead or retired.")] = "",
    target: Annotated[str, typer.Option(help="Only those that this host of the target rules serves.")] = "",
    as_json: Json = False, url: Url = "",
) -> None:  # fmt: skip
    """List proxies."""
    asked = "&".join(f"{name}={text}" for name, text in (("status", status), ("target", target)) if text)
    found = _ask("GET", "/proxies" + (f"?{asked}" if asked else ""), url, as_json)
    return _table(found, "proxies", ("id", "proxy", "status", "country", "anonymity", "score"), as_json)


@proxies.command()
def explain(proxy_id: str, as_json: Json = False, url: Url = "") -> None:
    """Explain a proxy: why this score, why (not) leasable, when next."""
    _show(_ask("GET", f"/proxies/{proxy_id}", url, as_json), as_json)


@app.command()
def thaw(as_json: Json = False, url: Url = "") -> None:
    """End a freeze of scores: failures of active proxies have their effects again."""
    _show(_ask("PATCH", "/settings", url, as_json, {"frozen": False}), as_json)


@app.command()
def farm(
    size: Annotated[int, typer.Option("-n", "--size", help="How many proxies.")] = 64,
    mix: Annotated[str, typer.Option(help="For example fast=5,liar=1; or all kinds alike.")] = "all",
    seed: Annotated[int, typer.Option(help="The same seed grows the same farm.")] = 1,
    folder: Annotated[Path, typer.Option("--state", help="Where farm.json, the list and certificates go.")] = Path(".farm"),
    key_file: Annotated[Path | None, typer.Option(help="The text that signs the judge's answers.")] = None,
    one_address: Annotated[bool, typer.Option(help="All on 127.0.0.1, a port each, as on macOS.")] = False,
) -> None:  # fmt: skip
    """Grow good and hostile proxies on loopback, with the truth about each, until Ctrl-C: try a checker against them."""
    from proxypool.local.farm import serve_command

    try:
        serve_command(folder=folder, count=size, mix=mix, seed=seed, key_file=key_file, one_address=one_address)
    except ValueError as error:
        fail(USAGE, str(error), as_json=False)


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
