"""The command `proxypool`: what a worker needs; a service that is installed beside adds its verbs (`proxypool.commands`)."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Annotated, Any, Final, NoReturn
from urllib.parse import quote, urlsplit

try:
    import typer
except ModuleNotFoundError:  # pragma: no cover  the base wheel has no command line
    sys.exit("proxypool: the command line is an extra: pip install 'proxypool-client[cli]'")


class Exit(IntEnum):
    """What the command's exit code says; 0 is success."""

    FAILED = 1
    USAGE = 2
    PROBLEMS = 3
    CREDENTIALS = 4
    EMPTY = 5
    UNREACHABLE = 6
    INTERRUPTED = 130


EXIT_CODES: Final = {
    0: "done",
    Exit.FAILED: "failed: the pool, or a page, said no",
    Exit.USAGE: "wrong use: an unknown option, a value that is not one",
    Exit.PROBLEMS: "a check found problems",
    Exit.CREDENTIALS: "no credentials, expired ones, or ones that may not do this",
    Exit.EMPTY: "no proxy that fits is free, or there is no such lease, proxy, source or stack",
    Exit.UNREACHABLE: "nobody answers there, or nobody said where the pool is",
    Exit.INTERRUPTED: "interrupted by Ctrl-C",
}

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Url = Annotated[str, typer.Option("--url", help="The pool's API; else PROXYPOOL_URL, else the stack of this folder.")]
Country = Annotated[str | None, typer.Option(help="ISO code, e.g. us.")]
Https = Annotated[bool, typer.Option("--https", help="Only proxies that carry HTTPS.")]
Ttl = Annotated[int | None, typer.Option("--ttl", help="Seconds, 1 to 900.")]
Anonymity = Annotated[str | None, typer.Option(help="At least: transparent, anonymous or elite.")]
MinScore = Annotated[float | None, typer.Option(help="0.0 to 1.0.")]

app = typer.Typer(
    help="A pool of proxies that work right now.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(version("proxypool-client"))
        raise typer.Exit


@app.callback()
def options(
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """A pool of proxies that work right now. `help exit-codes` tells how a command ends."""


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
    if urlsplit(target).scheme not in ("http", "https") or not target.isprintable() or " " in target:
        fail(Exit.USAGE, "a page is an http or https URL", as_json)
    import httpx

    filters: dict[str, Any] = {"country": country, "https": True if target.startswith("https:") else None}
    given = {name: value for name, value in filters.items() if value is not None}
    with answers(as_json), _pool(url) as pool:
        try:
            with pool.lease(wait_seconds=5, **given) as lease:
                typer.echo(f"through {lease.exit_ip} ({lease.country}), lease {lease.id}", err=True)
                with httpx.Client(proxy=lease.proxy_url, trust_env=False, timeout=20) as client:
                    page = client.get(target)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            fail(Exit.FAILED, f"the proxy did not bring the page ({type(error).__name__})", as_json)
    found = {"status": page.status_code, "exit_ip": lease.exit_ip, "body": page.text}
    typer.echo(json.dumps(found) if as_json else page.text)


@app.command()
def leases(
    lease_id: Annotated[str, typer.Argument(help="One lease; none: all of yours.")] = "",
    as_json: Json = False,
    url: Url = "",
) -> None:
    """List your live leases, or show one."""
    with answers(as_json), _pool(url) as pool:
        found = pool.api.request("GET", f"/leases/{quote(lease_id, safe='')}" if lease_id else "/leases")
    if as_json:
        return typer.echo(json.dumps(found))
    for one in [found] if lease_id else found["leases"]:
        typer.echo("\t".join(str(one[name]) for name in ("id", "proxy_id", "exit_ip", "country", "expires_at")))
    return None


@app.command("help")
def help_on(topic: Annotated[str, typer.Argument(help="exit-codes")] = "exit-codes", as_json: Json = False) -> None:
    """Tell what the exit codes mean."""
    if topic != "exit-codes":
        fail(Exit.USAGE, "there is help on: exit-codes", as_json)
    if as_json:
        return typer.echo(json.dumps({str(int(code)): text for code, text in EXIT_CODES.items()}))
    for code, text in EXIT_CODES.items():
        typer.echo(f"{int(code)}\t{text}")
    return None


@contextmanager
def answers(as_json: bool) -> Iterator[None]:
    """Turns what the client raises into one line (a problem object with --json) on stderr and an exit code."""
    from proxypool_client.errors import NoPool, NotAllowed, PoolEmpty, PoolError, Refused, Unreachable

    try:
        yield
    except NotAllowed as error:
        fail(
            Exit.CREDENTIALS,
            f"{error}: are AWS_ACCESS_KEY_ID and its secret set, and may they?",
            as_json,
            error.problem,
        )
    except Refused as error:
        detail = (
            f" ({', '.join(f'{n} {why}' for why, n in error.reasons.items())})" if isinstance(error, PoolEmpty) else ""
        )
        wrong = "; ".join(f"{one['field']}: {one['message']}" for one in error.problem.get("errors", []))
        text = f"{error}{detail}{': ' + wrong if wrong else ''}"
        fail(Exit.EMPTY if error.type in ("not_found", "pool_empty") else Exit.FAILED, text, as_json, error.problem)
    except (Unreachable, NoPool) as error:
        fail(Exit.UNREACHABLE, str(error), as_json)
    except PoolError as error:
        fail(Exit.FAILED, str(error), as_json)


def fail(code: int, text: str, as_json: bool, problem: dict[str, Any] | None = None) -> NoReturn:
    """Says what went wrong on stderr and ends with the code."""
    line = " ".join(text.split())
    typer.echo(json.dumps(problem or {"title": line}) if as_json else f"proxypool: {line}", err=True)
    raise typer.Exit(code)


def _pool(url: str) -> Any:
    from proxypool_client.pool import Pool

    return Pool(url)


def main() -> None:
    """The console script. Whatever goes wrong is one line on stderr; PROXYPOOL_DEBUG=1 shows where."""
    own = {command.name or getattr(command.callback, "__name__", "") for command in app.registered_commands}
    if not own.intersection(sys.argv[1:2]):  # finding the others costs more than most of our own commands take
        from importlib.metadata import entry_points

        from proxypool_client import job_commands, session_commands

        app.add_typer(job_commands.app, name="jobs")
        app.add_typer(session_commands.app, name="sessions")
        for point in entry_points(group="proxypool.commands"):
            app.add_typer(point.load())
    try:
        app()
    except Exception as error:
        if os.environ.get("PROXYPOOL_DEBUG"):
            raise
        typer.echo(f"proxypool: {type(error).__name__}: {_one_line(error)}", err=True)
        sys.exit(Exit.FAILED)


def _one_line(error: Exception) -> str:
    """What the error says, without credentials of URLs."""
    return re.sub(r"(?<=://)[^/@\s]*@", "***@", " ".join(str(error).split()))[:200]
