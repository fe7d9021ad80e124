"""`proxypool lease`, `release`, `fetch` and `leases`."""

from __future__ import annotations

import json
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer

from proxypool_client.cli.output import Exit, client_errors, fail
from proxypool_client.cli.request import Json, Url, path_part, request

PAGE_SECONDS = 20
WAIT_SECONDS = 5

Country = Annotated[str | None, typer.Option(help="ISO country code, e.g. us.")]
Https = Annotated[bool, typer.Option("--https", help="Only proxies that support HTTPS (CONNECT).")]
Ttl = Annotated[int | None, typer.Option("--ttl", help="Lease duration in seconds, 1 to 900.")]
Anonymity = Annotated[str | None, typer.Option(help="Minimum anonymity: transparent, anonymous or elite.")]
MinScore = Annotated[float | None, typer.Option(help="Minimum score, 0.0 to 1.0.")]

app = typer.Typer()


@app.command()
def lease(
    country: Country = None, https: Https = False, ttl: Ttl = None, anonymity: Anonymity = None, min_score: MinScore = None,
    as_json: Json = False, url: Url = "",
) -> None:  # fmt: skip
    """Lease a proxy and print its URL."""
    options = {
        "country": country,
        "https": https or None,
        "ttl_seconds": ttl,
        "anonymity": anonymity,
        "min_score": min_score,
    }
    body = {name: value for name, value in options.items() if value is not None}
    granted = request("POST", "/leases", url, as_json, body)
    typer.echo(json.dumps(granted) if as_json else granted["proxy_url"])
    if not as_json:
        typer.echo(f"lease {granted['id']}, exit {granted['exit_ip']}, until {granted['expires_at']}", err=True)


@app.command()
def release(
    lease_id: str,
    outcome: Annotated[str, typer.Option(help="ok, blocked, captcha, rate_limited, timeout, proxy_error, …")] = "",
    as_json: Json = False,
    url: Url = "",
) -> None:
    """Release a lease."""
    with client_errors(as_json), _pool(url) as pool:
        pool.release(lease_id, outcome)
        typer.echo(json.dumps({"released": lease_id}) if as_json else "released")


@app.command()
def fetch(target: str, country: Country = None, as_json: Json = False, url: Url = "") -> None:
    """Fetch a page through a leased proxy: the body goes to stdout, the lease to stderr."""
    if urlsplit(target).scheme not in ("http", "https") or not target.isprintable() or " " in target:
        fail(Exit.USAGE, "the page must be an http or https URL", as_json)
    import httpx

    options: dict[str, Any] = {"country": country, "https": True if target.startswith("https:") else None}
    filters = {name: value for name, value in options.items() if value is not None}
    with client_errors(as_json), _pool(url) as pool:
        try:
            with pool.lease(wait_seconds=WAIT_SECONDS, **filters) as granted:
                typer.echo(f"through {granted.exit_ip} ({granted.country}), lease {granted.id}", err=True)
                with httpx.Client(proxy=granted.proxy_url, trust_env=False, timeout=PAGE_SECONDS) as client:
                    page = client.get(target)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            fail(Exit.FAILED, f"the page could not be fetched through the proxy ({type(error).__name__})", as_json)
    result = {"status": page.status_code, "exit_ip": granted.exit_ip, "body": page.text}
    typer.echo(json.dumps(result) if as_json else page.text)


@app.command()
def leases(
    lease_id: Annotated[str, typer.Argument(help="A lease id; default: all of your leases.")] = "",
    as_json: Json = False,
    url: Url = "",
) -> None:
    """List your active leases, or show one."""
    answer = request("GET", f"/leases/{path_part(lease_id)}" if lease_id else "/leases", url, as_json)
    if as_json:
        return typer.echo(json.dumps(answer))
    for one in [answer] if lease_id else answer["leases"]:
        typer.echo("\t".join(str(one[name]) for name in ("id", "proxy_id", "exit_ip", "country", "expires_at")))
    return None


def _pool(url: str) -> Any:
    from proxypool_client.pool import Pool

    return Pool(url)
