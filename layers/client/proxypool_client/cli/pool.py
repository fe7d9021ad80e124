"""`proxypool stats`, `thaw` and `rebuild`: the pool as a whole."""

from __future__ import annotations

import typer

from proxypool_client.cli.output import show
from proxypool_client.cli.request import Json, Url, request

app = typer.Typer()


@app.command()
def stats(as_json: Json = False, url: Url = "") -> None:
    """Show the pool's statistics."""
    show(request("GET", "/stats/pool", url, as_json), as_json)


@app.command()
def thaw(as_json: Json = False, url: Url = "") -> None:
    """End a freeze: failed checks change scores and statuses again."""
    show(request("PATCH", "/settings", url, as_json, {"frozen": False}), as_json)


@app.command()
def rebuild(as_json: Json = False, url: Url = "") -> None:
    """Rebuild the index of ready proxies from the proxies table; leasing continues meanwhile."""
    show(request("POST", "/pool/rebuild", url, as_json), as_json)
