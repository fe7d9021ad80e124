"""The command `proxypool`: what a worker needs; a service that is installed beside adds its verbs (`proxypool.commands`)."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import entry_points
from typing import Annotated, Any, NoReturn
from urllib.parse import urlsplit

try:
    import typer
except ModuleNotFoundError:  # pragma: no cover  the base wheel has no command line
    sys.exit("proxypool: the command line is an extra: pip install 'proxypool-client[cli]'")

FAILED, USAGE, EMPTY, UNREACHABLE = 1, 2, 5, 6  # exit codes; 0 is success

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Url = Annotated[str, typer.Option("--url", help="The pool's API; else PROXYPOOL_URL, else the stack of this folder.")]
Country = Annotated[str | None, typer.Option(help="ISO code, e.g. us.")]
Https = Annotated[bool, typer.Option("--https", help="Only proxies that carry HTTPS.")]
Ttl = Annotated[int | None, typer.Option("--ttl", help="Seconds, 1 to 900.")]
Anonymity = Annotated[str | None, typer.Option(help="At least: transparent, anonymous or elite.")]
MinScore = Annotated[float | None, typer.Option(help="0.0 to 1.0.")]

app = typer.Typer(help="A pool of proxies that work right now.", no_args_is_help=True)


@app.command()
def lease(
    country: Country = None, https: Https = False, ttl: Ttl = None, anonymity: Anonymity = None, min_score: MinScore = None,
    as_json: Json = False, url: Url = "",
) -> None:  # fmt: skip
    """Lease a proxy: print its URL."""
    asked = {
        "country": country,
        "https": https or None,
        "ttl_seconds": ttl,
        "anonymity": anonymity,
        "min_score": min_score,
    }
    with answers(as_json), _pool(url) as pool:
        found = pool.api.request("POST", "/leases", {name: value for name, value in asked.items() if value is not None})
        typer.echo(json.dumps(found) if as_json else found["proxy_url"])
        if not as_json:
            typer.echo(f"lease {found['id']}, exit {found['exit_ip']}, until {found['expires_at']}", err=True)


@app.command()
def release(
    lease_id: str,
    outcome: Annotated[str, typer.Option(help="ok, blocked, captcha, rate_limited, timeout, proxy_error, …")] = "",
    as_json: Json = False,
    url: Url = "",
) -> None:
    """Give a lease back."""
    with answers(as_json), _pool(url) as pool:
        pool.release(lease_id, outcome)
        typer.echo(json.dumps({"released": lease_id}) if as_json else "released")


@app.command()
def fetch(target: str, country: Country = None, as_json: Json = False, url: Url = "") -> None:
    """Fetch a page through a leased proxy: the body on stdout, the lease on stderr."""
    import httpx

    if urlsplit(target).scheme not in ("http", "https") or not target.isprintable() or " " in target:
        fail(USAGE, "a page is an http or https URL", as_json)
    filters: dict[str, Any] = {"country": country, "https": True if target.startswith("https:") else None}
    given = {name: value for name, value in filters.items() if value is not None}
    with answers(as_json), _pool(url) as pool:
        try:
            with pool.lease(wait_seconds=5, **given) as lease:
                typer.echo(f"through {lease.exit_ip} ({lease.country}), lease {lease.id}", err=True)
                with httpx.Client(proxy=lease.proxy_url, trust_env=False, timeout=20) as client:
                    page = client.get(target)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            fail(FAILED, f"the proxy did not bring the page ({type(error).__name__})", as_json)
    found = {"status": page.status_code, "exit_ip": lease.exit_ip, "body": page.text}
    typer.echo(json.dumps(found) if as_json else page.text)


@contextmanager
def answers(as_json: bool) -> Iterator[None]:
    """Turns what the client raises into one line (a problem object with --json) on stderr and an exit code."""
    from proxypool_client.errors import NoPool, PoolEmpty, PoolError, Refused, Unreachable

    try:
        yield
    except Refused as error:
        detail = (
            f" ({', '.join(f'{n} {why}' for why, n in error.reasons.items())})" if isinstance(error, PoolEmpty) else ""
        )
        wrong = "; ".join(f"{one['field']}: {one['message']}" for one in error.problem.get("errors", []))
        text = f"{error}{detail}{': ' + wrong if wrong else ''}"
        fail(EMPTY if error.status in (404, 409) else FAILED, text, as_json, error.problem)
    except (Unreachable, NoPool) as error:
        fail(UNREACHABLE, str(error), as_json)
    except PoolError as error:
        fail(FAILED, str(error), as_json)


def fail(code: int, text: str, as_json: bool, problem: dict[str, Any] | None = None) -> NoReturn:
    """Says what went wrong on stderr and ends with the code."""
    typer.echo(json.dumps(problem or {"title": text}) if as_json else f"proxypool: {text}", err=True)
    raise typer.Exit(code)


def _pool(url: str) -> Any:
    from proxypool_client.pool import Pool

    return Pool(url)


def main() -> None:
    """The console script."""
    from proxypool_client import job_commands, session_commands

    app.add_typer(job_commands.app, name="jobs")
    app.add_typer(session_commands.app, name="sessions")
    for point in entry_points(group="proxypool.commands"):
        app.add_typer(point.load())
    app()
