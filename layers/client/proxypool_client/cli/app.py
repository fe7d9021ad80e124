"""The command `proxypool`, with the commands of an installed service (entry points `proxypool.commands`)."""

from __future__ import annotations

import json
import os
import re
import sys
from functools import cache
from typing import Annotated

try:
    import typer
except ModuleNotFoundError:  # pragma: no cover  the wheel without its extra has no command line
    sys.exit("proxypool: the command line is an extra: pip install 'proxypool-client[cli]'")

from proxypool_client.cli import leases
from proxypool_client.cli.output import EXIT_CODES, Exit, fail
from proxypool_client.cli.request import Json

app = typer.Typer(
    help="A pool of proxies that work right now.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.add_typer(leases.app)


def _version(requested: bool) -> None:
    if requested:
        from importlib.metadata import version

        typer.echo(version("proxypool-client"))
        raise typer.Exit


@app.callback()
def options(
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """A pool of proxies that work right now. `proxypool help exit-codes` lists the exit codes."""


@app.command("help")
def show_help(topic: Annotated[str, typer.Argument(help="exit-codes")] = "exit-codes", as_json: Json = False) -> None:
    """List the exit codes."""
    if topic != "exit-codes":
        fail(Exit.USAGE, "the only help topic is: exit-codes", as_json)
    if as_json:
        return typer.echo(json.dumps({str(int(code)): text for code, text in EXIT_CODES.items()}))
    for code, text in EXIT_CODES.items():
        typer.echo(f"{int(code)}\t{text}")
    return None


def main() -> None:
    """The console script. Any error is one line on stderr; PROXYPOOL_DEBUG=1 shows the traceback."""
    fast = {"help", "lease", "release", "fetch", "leases"}
    if not fast.intersection(sys.argv[1:2]):  # importing the other commands takes longer than most of these run
        load_all()
    try:
        app()
    except Exception as error:
        if os.environ.get("PROXYPOOL_DEBUG"):
            raise
        typer.echo(f"proxypool: {type(error).__name__}: {_one_line(error)}", err=True)
        sys.exit(Exit.FAILED)


@cache
def load_all() -> None:
    """Adds the commands of the other modules, and those of an installed service; once."""
    from importlib.metadata import entry_points

    from proxypool_client.cli import jobs, pool, proxies, sessions, sources

    app.add_typer(pool.app)
    for name, module in {"sources": sources, "proxies": proxies, "jobs": jobs, "sessions": sessions}.items():
        app.add_typer(module.app, name=name)
    for point in entry_points(group="proxypool.commands"):
        app.add_typer(point.load())


def _one_line(error: Exception) -> str:
    """The error's message on one line, credentials in URLs masked."""
    return re.sub(r"(?<=://)[^/@\s]*@", "***@", " ".join(str(error).split()))[:200]
