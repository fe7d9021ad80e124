"""The service's verbs of the command `proxypool`: the local stack, sources, proxies, the pool's state, dead letters, the judge."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote, urlencode

import typer
from proxypool_client.cli import Exit, Json, Url, answers, fail

from proxypool.local.commands import local_app
from proxypool.printed import show, table
from proxypool.stack_commands import stack_app

PAGE = 1_000  # proxies of one request

app = typer.Typer()
sources = typer.Typer(help="The lists that feed the pool.", no_args_is_help=True)
proxies = typer.Typer(help="The proxies of the pool; without a verb: list them.", invoke_without_command=True)
judge = typer.Typer(help="The echo service that checks ask.", no_args_is_help=True)
app.add_typer(local_app)
app.add_typer(sources, name="sources")
app.add_typer(proxies, name="proxies")
app.add_typer(stack_app)
app.add_typer(judge, name="judge")


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
        show(next(files.send([entry], _asker(url, as_json), scrape=False)), as_json)


@sources.command("import")
def import_sources(
    file: Annotated[Path, typer.Argument(help="A .toml file; sources.example.toml has every kind.")],
    as_json: Json = False, url: Url = "",
) -> None:  # fmt: skip
    """Add the sources of a file, or change those that are there, and scrape them."""
    from proxypool.sources import files

    with _one_line(as_json):
        done = list(files.send(files.read(file), _asker(url, as_json), scrape=True))
    table({"sources": done}, "sources", ("id", "name", "health"), as_json)


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
    table(found, "sources", columns, as_json)


@sources.command()
def accept(source_id: str, as_json: Json = False, url: Url = "") -> None:
    """Take a source's list as right as it is now: its health is learnt anew."""
    show(_ask("PATCH", f"/sources/{_part(source_id)}", url, as_json, {"accept": True}), as_json)


@sources.command()
def scrape(source_id: str, as_json: Json = False, url: Url = "") -> None:
    """Scrape a source now."""
    show(_ask("POST", f"/sources/{_part(source_id)}/scrape", url, as_json), as_json)


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
            fail(Exit.USAGE, str(error), as_json)
    typer.echo(json.dumps(found.as_json()) if as_json else "\n".join(found.lines()))


@app.command()
def stats(as_json: Json = False, url: Url = "") -> None:
    """Show how the pool is."""
    show(_ask("GET", "/stats/pool", url, as_json), as_json)


@proxies.callback()
@proxies.command("list")
def list_proxies(
    context: typer.Context,
    status: Annotated[str, typer.Option(help="unchecked, active, dead or retired.")] = "",
    protocol: Annotated[str, typer.Option(help="http, https, socks4 or socks5.")] = "",
    country: Annotated[str, typer.Option(help="ISO code, e.g. us.")] = "",
    anonymity: Annotated[str, typer.Option(help="transparent, anonymous or elite.")] = "",
    source: str = "", tag: str = "",
    target: Annotated[str, typer.Option(help="Only those that this host of the target rules serves.")] = "",
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 100,
    start: Annotated[str, typer.Option("--next", help="Where the list before said that the next begins.")] = "",
    as_json: Json = False, url: Url = "",
) -> None:  # fmt: skip
    """List proxies."""
    if context.invoked_subcommand:
        return
    filters = {
        "status": status,
        "protocol": protocol,
        "country": country,
        "anonymity": anonymity,
        "source": source,
        "tag": tag,
        "target": target,
    }
    found = _pages({name: text for name, text in filters.items() if text}, limit, start, url, as_json)
    table(found, "proxies", ("id", "proxy", "status", "country", "anonymity", "score"), as_json)
    if found["next"] and not as_json:
        typer.echo(f"there are more: --next {found['next']}", err=True)


@proxies.command()
def remove(proxy_id: str, as_json: Json = False, url: Url = "") -> None:
    """Remove a proxy: no list brings it back."""
    _ask("DELETE", f"/proxies/{_part(proxy_id)}", url, as_json)
    show({"removed": proxy_id}, as_json)


@proxies.command()
def restore(proxy_id: str, as_json: Json = False, url: Url = "") -> None:
    """Take a removal back; the proxy is checked at once."""
    show(_ask("POST", f"/proxies/{_part(proxy_id)}/restore", url, as_json), as_json)


@proxies.command()
def explain(proxy_id: str, as_json: Json = False, url: Url = "") -> None:
    """Explain a proxy: why this score, why (not) leasable, when next."""
    show(_ask("GET", f"/proxies/{_part(proxy_id)}", url, as_json), as_json)


@app.command()
def thaw(as_json: Json = False, url: Url = "") -> None:
    """End a freeze of scores: failures of active proxies have their effects again."""
    show(_ask("PATCH", "/settings", url, as_json, {"frozen": False}), as_json)


@app.command()
def rebuild(as_json: Json = False, url: Url = "") -> None:
    """Write the index of ready proxies again from the table, for when the two seem to differ; leases go on."""
    show(_ask("POST", "/pool/rebuild", url, as_json), as_json)


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
        fail(Exit.USAGE, str(error), as_json=False)


@judge.command("serve")
def serve_judge(
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="0: a free one.")] = 8790,
    key_file: Annotated[Path | None, typer.Option(help="The key that signs answers; none: unsigned.")] = None,
    as_json: Json = False,
) -> None:
    """Serve a judge over plain HTTP until Ctrl-C: it says what it sees of a request."""
    from proxypool.local.judge import serve_command

    if key_file and not key_file.is_file():
        fail(Exit.USAGE, f"{key_file} is not a file", as_json)
    try:
        serve_command(host=host, port=port, key_file=key_file, as_json=as_json)
    except OSError as error:
        fail(Exit.FAILED, f"nobody can listen on {host}:{port} ({error.strerror})", as_json)


def _pages(filters: dict[str, str], limit: int, start: str, url: str, as_json: bool) -> dict[str, Any]:
    """Up to `limit` proxies, page after page, and where the next begin (None at the end)."""
    from proxypool_client.pool import Pool

    found: list[Any] = []
    following: str | None = start
    with answers(as_json), Pool(url) as pool:
        while following is not None and len(found) < limit:
            size = {"limit": str(min(PAGE, limit - len(found)))} | ({"next": following} if following else {})
            page = pool.api.request("GET", f"/proxies?{urlencode(filters | size)}")
            found += page["proxies"]
            following = page["next"]
    return {"proxies": found, "next": following}


@contextmanager
def _one_line(as_json: bool) -> Iterator[None]:
    """Says what is wrong with a file in one line."""
    from proxypool.errors import SourceError

    try:
        yield
    except SourceError as error:
        fail(Exit.USAGE, error.reason, as_json)


def _asker(url: str, as_json: bool) -> Callable[[str, str, Any], Any]:
    return lambda method, path, body: _ask(method, path, url, as_json, body)


def _ask(method: str, path: str, url: str, as_json: bool, body: Any = None) -> Any:
    from proxypool_client.pool import Pool

    with answers(as_json), Pool(url) as pool:
        return pool.api.request(method, path, body)


def _part(name: str) -> str:
    """An id as a part of a path."""
    return quote(name, safe="")
