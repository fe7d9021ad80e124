"""How the service's commands print: one JSON object where that is asked for, else lines that a pipe can read."""

from __future__ import annotations

import json
from typing import Any

import typer


def show(value: dict[str, Any], as_json: bool) -> None:
    """A name and its value a line."""
    if as_json:
        return typer.echo(json.dumps(value))
    for name, item in value.items():
        typer.echo(f"{name}\t{json.dumps(item) if isinstance(item, dict | list) else item}")
    return None


def table(value: dict[str, Any], name: str, columns: tuple[str, ...], as_json: bool) -> None:
    """Tab-separated, full ids: what a pipe can read."""
    if as_json:
        return typer.echo(json.dumps(value))
    for row in value[name]:
        typer.echo("\t".join("" if row.get(column) is None else str(row[column]) for column in columns))
    return None
