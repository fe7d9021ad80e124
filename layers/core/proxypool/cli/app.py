"""What the service adds to the command `proxypool`: the local stack, deployed stacks, trying a list, the farm, the judge."""

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
judge = typer.Typer(help="The echo service that checks request.", no_args_is_help=True)
app.add_typer(local_app)
app.add_typer(stack_app)
app.add_typer(settings_app, name="settings")
app.add_typer(judge, name="judge")


@sources.command("test")
def try_source(
    location: Annotated[str, typer.Argument(help="A URL or a file.")],
    parser: Annotated[str, typer.Option(help="A format; json:path.to.rows selects a part of a document.")] = "auto",
    protocol: Annotated[str, typer.Option(help="Protocol of rows that name none.")] = "http",
    allow_http: Annotated[bool, typer.Option("--allow-http", help="The URL may be plain http.")] = False,
    allow_private: Annotated[bool, typer.Option("--allow-private", help="Accept private and loopback proxies.")] = False,
    every: Annotated[bool, typer.Option("--all", help="Show all proxies, not ten.")] = False,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Show which proxies a list would yield. Nothing is stored, and no stack is needed."""
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
    size: Annotated[int, typer.Option("-n", "--size", help="How many proxies.")] = 64,
    mix: Annotated[str, typer.Option(help="For example fast=5,liar=1; or all kinds alike.")] = "all",
    seed: Annotated[int, typer.Option(help="The same seed makes the same farm.")] = 1,
    folder: Annotated[Path, typer.Option("--state", help="Folder for farm.json, the list and the certificates.")] = Path(".farm"),
    key_file: Annotated[Path | None, typer.Option(help="File with the key that signs the judge's responses.")] = None,
    one_address: Annotated[bool, typer.Option(help="All on 127.0.0.1, one port each, as macOS needs.")] = False,
) -> None:  # fmt: skip
    """Run good and hostile proxies on loopback until Ctrl-C, with a manifest of their behavior, to try a checker against."""
    from proxypool.local.farm.server import serve_command

    try:
        serve_command(folder=folder, count=size, mix=mix, seed=seed, key_file=key_file, one_address=one_address)
    except ValueError as error:
        fail(Exit.USAGE, str(error), as_json=False)


@judge.command("serve")
def serve_judge(
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="0 selects a free port.")] = 8790,
    key_file: Annotated[
        Path | None, typer.Option(help="File with the key that signs responses; without it they are unsigned.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Serve a judge over plain HTTP until Ctrl-C: it returns what it sees of a request."""
    from proxypool.local.farm.judge_server import serve_command

    if key_file and not key_file.is_file():
        fail(Exit.USAGE, f"{key_file} is not a file", as_json)
    try:
        serve_command(host=host, port=port, key_file=key_file, as_json=as_json)
    except OSError as error:
        fail(Exit.FAILED, f"cannot listen on {host}:{port} ({error.strerror})", as_json)
