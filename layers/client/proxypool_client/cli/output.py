"""Output and exit codes of all commands: one JSON object with --json, else tab-separated lines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Any, Final, NoReturn

import typer


class Exit(IntEnum):
    """Exit codes of the command; 0 is success."""

    FAILED = 1
    USAGE = 2
    PROBLEMS = 3
    CREDENTIALS = 4
    EMPTY = 5
    UNREACHABLE = 6
    INTERRUPTED = 130


EXIT_CODES: Final = {
    0: "success",
    Exit.FAILED: "failed: the pool or the page answered with an error",
    Exit.USAGE: "invalid usage: an unknown option or an invalid value",
    Exit.PROBLEMS: "a check found problems",
    Exit.CREDENTIALS: "credentials are missing, expired, or not permitted to do this",
    Exit.EMPTY: "no free proxy matches, or the lease, proxy, source or stack does not exist",
    Exit.UNREACHABLE: "the pool did not respond, or its URL is not configured",
    Exit.INTERRUPTED: "interrupted by Ctrl-C",
}


def show(value: dict[str, Any], as_json: bool) -> None:
    """Prints an object: one line per member, name and value separated by a tab."""
    if as_json:
        return typer.echo(json.dumps(value))
    for name, item in value.items():
        typer.echo(f"{name}\t{json.dumps(item) if isinstance(item, dict | list) else item}")
    return None


def table(value: dict[str, Any], name: str, columns: tuple[str, ...], as_json: bool) -> None:
    """Prints the list `value[name]`, one row per line, these columns separated by tabs; ids are never shortened."""
    if as_json:
        return typer.echo(json.dumps(value))
    for row in value[name]:
        typer.echo("\t".join("" if row.get(column) is None else str(row[column]) for column in columns))
    return None


def fail(code: int, text: str, as_json: bool, problem: dict[str, Any] | None = None) -> NoReturn:
    """Prints one line (with --json the API's problem object) to stderr and exits with the code."""
    line = " ".join(text.split())
    typer.echo(json.dumps(problem or {"title": line}) if as_json else f"proxypool: {line}", err=True)
    raise typer.Exit(code)


@contextmanager
def client_errors(as_json: bool) -> Iterator[None]:
    """Turns the client's errors into one line on stderr and an exit code."""
    from proxypool_client.errors import ApiError, NoPool, NotAllowed, PoolEmpty, PoolError, SourceFileError, Unreachable

    try:
        yield
    except NotAllowed as error:
        hint = f"{error}: check AWS_ACCESS_KEY_ID, its secret, and what they are permitted to do"
        fail(Exit.CREDENTIALS, hint, as_json, error.problem)
    except PoolEmpty as error:
        reasons = ", ".join(f"{count} {reason}" for reason, count in error.reasons.items())
        fail(Exit.EMPTY, f"{error} ({reasons})" if reasons else str(error), as_json, error.problem)
    except ApiError as error:
        fields = "; ".join(f"{one['field']}: {one['message']}" for one in error.problem.get("errors", []))
        code = Exit.EMPTY if error.type == "not_found" else Exit.FAILED
        fail(code, f"{error}: {fields}" if fields else str(error), as_json, error.problem)
    except (Unreachable, NoPool) as error:
        fail(Exit.UNREACHABLE, str(error), as_json)
    except SourceFileError as error:
        fail(Exit.USAGE, str(error), as_json)
    except PoolError as error:
        fail(Exit.FAILED, str(error), as_json)
