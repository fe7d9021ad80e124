"""The commands that the service adds to `proxypool`: local and deployed stacks, `sources test`, the farm and the judge."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from proxypool_client.cli.output import Exit, client_errors, fail
from proxypool_client.cli.request import Json
from proxypool_client.cli.sources import app as sources

from proxypool.cli.settings import settings_app
from proxypool.cli.stack import stack_app
from proxypool.local.commands import local_app

app = typer.Typer()
judge = typer.Typer(help="The echo server that checks send their requests to.", no_args_is_help=True)
app.add_typer(local_app)
app.add_typer(stack_app)
app.add_typer(settings_app, name="settings")
app.add_typer(judge, name="judge")


@sources.command("test")
def try_source(
    location: Annotated[str, typer.Argument(help="The list: a URL or a file.")],
    parser: Annotated[str, typer.Option(help="Format of the list; json:path.to.rows selects a part of a JSON document.")] = "auto",
    protocol: Annotated[str, typer.Option(help="Protocol of rows without one.")] = "http",
    allow_http: Annotated[bool, typer.Option("--allow-http", help="Allow a plain http URL.")] = False,
    allow_private: Annotated[bool, typer.Option("--allow-private", help="Allow private and loopback addresses.")] = False,
    every: Annotated[bool, typer.Option("--all", help="Show all proxies instead of ten.")] = False,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Show the proxies in a list. Nothing is stored, and no stack is needed."""
    from proxypool.sources import preview

    with client_errors(as_json):
        try:
            result = preview.preview_location(
                location,
                parser=parser,
                protocol=protocol,
                allow_http=allow_http,
                allow_private=allow_private,
                keep_all=every,
            )
        except preview.PreviewFailed as error:
            fail(Exit.USAGE, str(error), as_json)
    typer.echo(json.dumps(result.as_json()) if as_json else "\n".join(result.lines()))


@app.command()
def farm(
    size: Annotated[int, typer.Option("-n", "--size", help="Number of proxies.")] = 64,
    mix: Annotated[str, typer.Option(help="Shares of kinds, e.g. fast=5,liar=1; all: equal shares of all kinds.")] = "all",
    seed: Annotated[int, typer.Option(help="The same seed creates the same farm.")] = 1,
    folder: Annotated[Path, typer.Option("--state", help="Folder for farm.json, the list and the certificates.")] = Path(".farm"),
    key_file: Annotated[Path | None, typer.Option(help="File with the key that signs the judge's responses.")] = None,
    one_address: Annotated[bool, typer.Option("--one-address", help="All proxies on 127.0.0.1, each on its own port (macOS).")] = False,
) -> None:  # fmt: skip
    """Run a farm of test proxies on loopback until Ctrl-C.

    It has working, broken and hostile ones; farm.json lists them with the correct check results.
    """
    from proxypool.local.farm.server import serve_command

    try:
        serve_command(folder=folder, count=size, mix=mix, seed=seed, key_file=key_file, one_address=one_address)
    except ValueError as error:
        fail(Exit.USAGE, str(error), as_json=False)


@judge.command("serve")
def serve_judge(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port to listen on; 0 selects a free one.")] = 8790,
    key_file: Annotated[
        Path | None, typer.Option(help="File with the key that signs the responses; default: unsigned.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Run a judge over plain HTTP until Ctrl-C.

    It responds with the address and headers of each request.
    """
    from proxypool.local.farm.judge_server import serve_command

    if key_file and not key_file.is_file():
        fail(Exit.USAGE, f"{key_file} is not a file", as_json)
    try:
        serve_command(host=host, port=port, key_file=key_file, as_json=as_json)
    except OSError as error:
        fail(Exit.FAILED, f"cannot listen on {host}:{port} ({error.strerror})", as_json)
