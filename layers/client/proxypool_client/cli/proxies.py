"""`proxypool proxies …`."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import urlencode

import typer

from proxypool_client.cli.output import show, table
from proxypool_client.cli.request import Json, Url, connected, path_part, request
from proxypool_client.tables import ANONYMITY_LEVELS, PROTOCOLS, STATUSES

PAGE_SIZE = 1_000  # the API's maximum

app = typer.Typer(help="The proxies of the pool; without a subcommand: list them.", invoke_without_command=True)


@app.callback()
@app.command("list")
def list_proxies(
    context: typer.Context,
    status: Annotated[str, typer.Option(help=f"One of {', '.join(STATUSES)}.")] = "",
    protocol: Annotated[str, typer.Option(help=f"One of {', '.join(PROTOCOLS)}.")] = "",
    country: Annotated[str, typer.Option(help="ISO country code, e.g. us.")] = "",
    anonymity: Annotated[str, typer.Option(help=f"One of {', '.join(ANONYMITY_LEVELS)}.")] = "",
    source: str = "", tag: str = "",
    target: Annotated[str, typer.Option(help="Only proxies that this host of the target rules serves.")] = "",
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of proxies.")] = 100,
    start: Annotated[str, typer.Option("--next", help="Page token (`next`) of the previous page.")] = "",
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
    page = _pages({name: text for name, text in filters.items() if text}, limit, start, url, as_json)
    table(page, "proxies", ("id", "proxy", "status", "country", "anonymity", "score"), as_json)
    if page["next"] and not as_json:
        typer.echo(f"more proxies follow: --next {page['next']}", err=True)


@app.command()
def remove(proxy_id: str, as_json: Json = False, url: Url = "") -> None:
    """Remove a proxy; no list adds it again."""
    request("DELETE", f"/proxies/{path_part(proxy_id)}", url, as_json)
    show({"removed": proxy_id}, as_json)


@app.command()
def restore(proxy_id: str, as_json: Json = False, url: Url = "") -> None:
    """Restore a removed proxy; it is checked at once."""
    show(request("POST", f"/proxies/{path_part(proxy_id)}/restore", url, as_json), as_json)


@app.command()
def explain(proxy_id: str, as_json: Json = False, url: Url = "") -> None:
    """Explain a proxy's score, whether it can be leased, and when it is checked next."""
    show(request("GET", f"/proxies/{path_part(proxy_id)}", url, as_json), as_json)


def _pages(filters: dict[str, str], limit: int, start: str, url: str, as_json: bool) -> dict[str, Any]:
    """Up to `limit` proxies, page by page, and the token of the next page (None at the end)."""
    proxies: list[Any] = []
    token: str | None = start
    with connected(url, as_json) as api:
        while token is not None and len(proxies) < limit:
            paging = {"limit": str(min(PAGE_SIZE, limit - len(proxies)))} | ({"next": token} if token else {})
            page = api.request("GET", f"/proxies?{urlencode(filters | paging)}")
            proxies += page["proxies"]
            token = page["next"]
    return {"proxies": proxies, "next": token}
