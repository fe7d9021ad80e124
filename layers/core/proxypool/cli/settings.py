"""`proxypool settings`: shows the settings of a deployment, and checks new ones before they are deployed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final

import typer
from proxypool_client.cli.output import Exit, client_errors, table
from proxypool_client.cli.request import Json

from proxypool.cli.stack import Region, Stack

COLUMNS: Final = ("name", "value", "unit", "source")
OVERRIDES_PARAMETER: Final = "Overrides"
_USERINFO: Final = re.compile(r"(?<=://)[^/@]*@")

settings_app = typer.Typer(
    help="Show or check the settings of a deployment.\n\nThey are documented in docs/configuration.md. Settings of the API (PATCH /settings) are not included.",
    invoke_without_command=True,
)


@settings_app.callback()
def show_settings(context: typer.Context, stack: Stack = "", region: Region = "", as_json: Json = False) -> None:
    """Show each setting and parameter of a deployment, with its value, unit and source (default, override or parameter)."""
    if context.invoked_subcommand:
        return
    from proxypool.cli import stack_access
    from proxypool.cli.settings_check import check_overrides

    with client_errors(as_json), stack_access.aws_errors(as_json):
        parameters = stack_access.parameters(stack, region)
        problems = check_overrides(parameters.get(OVERRIDES_PARAMETER, ""))
    table({"settings": list(setting_rows(parameters)), "problems": problems}, "settings", COLUMNS, as_json)
    if not as_json:
        _print_problems(problems)


@settings_app.command("check")
def check_text(
    text: Annotated[str, typer.Argument(help="Value of the parameter Overrides, e.g. sweep_page=100,owner_quota=50.")],
    as_json: Json = False,
) -> None:
    """Check settings offline before a deploy. Prints one line per error."""
    from proxypool.cli.settings_check import check_overrides

    problems = check_overrides(text)
    if as_json:
        typer.echo(json.dumps({"problems": problems}))
    else:
        _print_problems(problems)
    if problems:
        raise typer.Exit(Exit.PROBLEMS)


def setting_rows(parameters: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """All settings with their effective values as they would be written in an override, then the template's other parameters."""
    from proxypool.config.overrides import parse, serialize
    from proxypool.config.settings import SETTING_SPECS

    values, _ = parse(parameters.get(OVERRIDES_PARAMETER, ""), SETTING_SPECS)
    for name, row in SETTING_SPECS.items():
        value = serialize({name: values.get(name, row.default)}).partition("=")[2]
        yield {"name": name, "value": value, "unit": row.unit, "source": "override" if name in values else "default"}
    for name, value in parameters.items():
        if name != OVERRIDES_PARAMETER:
            yield {"name": name, "value": _USERINFO.sub("***@", value), "unit": "", "source": "parameter"}


def _print_problems(problems: list[str]) -> None:
    for problem in problems:
        typer.echo(problem, err=True)
