"""`proxypool sessions …`: cookies of a login, imported from and exported to browsers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from proxypool_client import clock
from proxypool_client.api import Api, find_url
from proxypool_client.cli.output import Exit, client_errors, fail
from proxypool_client.cli.request import Json, Url, path_part
from proxypool_client.cookies import Jar, from_json, from_netscape, to_json, to_netscape
from proxypool_client.errors import LeaseLost
from proxypool_client.sessions import Session, parse_session

app = typer.Typer(help="Logins shared by all workers.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="The session's id.")]


@app.command("import")
def import_cookies(
    name: Name,
    file: Annotated[Path, typer.Argument(help="cookies.txt (Netscape) or a browser's JSON export.")],
    as_json: Json = False,
    url: Url = "",
) -> None:
    """Add a browser's cookies to a session."""
    try:
        cookies = read_cookies(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, TypeError) as error:
        fail(Exit.USAGE, f"{file} contains no cookies ({type(error).__name__})", as_json)
    with client_errors(as_json):
        api = Api(find_url(url))
        session = _session(api, name) or Session(id=name)
        session.jar = Jar.from_cookies([*session.jar.cookies.values(), *cookies])
        saved = api.request("PUT", f"/sessions/{path_part(name)}", session.body())
        typer.echo(json.dumps(saved) if as_json else f"{len(cookies)} cookies in session {name}")


@app.command()
def export(
    name: Name,
    netscape: Annotated[bool, typer.Option("--netscape", help="Print cookies.txt instead of JSON.")] = False,
    url: Url = "",
) -> None:
    """Print a session's cookies."""
    with client_errors(as_json=False):
        session = parse_session(Api(find_url(url)).request("GET", f"/sessions/{path_part(name)}"))
        cookies = session.jar.live(now=clock.now().timestamp())
        typer.echo(to_netscape(cookies) if netscape else json.dumps(to_json(cookies), indent=1))


@app.command()
def end(name: Name, as_json: Json = False, url: Url = "") -> None:
    """Delete a session."""
    with client_errors(as_json):
        Api(find_url(url)).request("DELETE", f"/sessions/{path_part(name)}")
        typer.echo(json.dumps({"ended": name}) if as_json else "ended")


def read_cookies(text: str) -> list[Any]:
    """The cookies of a JSON or Netscape text; raises ValueError if there are none."""
    cookies = from_json(json.loads(text)) if text.lstrip().startswith("[") else from_netscape(text)
    if not cookies:
        raise ValueError("no cookie")
    return cookies


def _session(api: Api, name: str) -> Session | None:
    try:
        return parse_session(api.request("GET", f"/sessions/{path_part(name)}"))
    except LeaseLost:
        return None
