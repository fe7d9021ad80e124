"""Writes what follows from the table of settings: parts of template.yaml, and docs/configuration.md.

`configuration.py` writes; `configuration.py --check PARAMETERS` compares instead, and checks the parameters that samconfig.toml
passes, as tools/sam_parameters.py read them. It ends with 1 where something differs or is not valid.
"""

from __future__ import annotations

import json
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from proxypool.cli.settings_check import check
from proxypool.config.overrides import MAX_CHARS, Setting, Value, pattern, write
from proxypool.config.settings import ROWS
from proxypool.config.time_limits import PACES
from proxypool.local.emulation import template

ROOT = Path(__file__).parents[1]
TEMPLATE = ROOT / "template.yaml"
DOCS = ROOT / "docs/configuration.md"
WIDTH = 118
INTRODUCTION = """\
# Configuration

Made by `make configuration` from `layers/core/proxypool/config/settings.py`, `time_limits.py` and the parameters of `template.yaml`.

A deployment is configured by the parameters of the template. All settings that CloudFormation itself does not use are in one of
them, `Overrides`: `name=value` pairs, separated by commas.

    sam deploy --parameter-overrides AcknowledgePublicLists=yes Overrides=sweep_page=100,owner_quota=50

or in `samconfig.toml`:

    parameter_overrides = ["AcknowledgePublicLists=yes", "Overrides=sweep_page=100,owner_quota=50"]

- The items of a list are separated by `+`: `check_skip=integrity_https+targets`.
- In texts and lists, letters, digits and `._~:/@#=-` stand for themselves; all other characters are percent-encoded
  (`,` is `%2C`, `+` is `%2B`, `?` is `%3F`, `&` is `%26`). So a value needs no quotes in a shell or in `samconfig.toml`.
- `proxypool settings check TEXT` checks a text offline, with ranges and with settings that depend on each other. `make check` checks
  `samconfig.toml`. CloudFormation refuses unknown names and malformed values.
- A function that cannot read a setting uses its default, logs that, and the alarm `SettingsAreIgnored` fires.
- `proxypool settings` prints what a deployment runs with (`--stack NAME`, else the local stack).

The operator's settings of the API (`GET` and `PATCH /settings`: pause, quotas, rates, target rules) are something else: they are data,
changed without a deploy (docs/operate.md).
"""


def template_text(text: str) -> str:
    """The text of template.yaml with its generated parts."""
    for name, lines in (("pattern", _pattern_lines()), ("paces", _pace_lines())):
        mark = re.compile(rf"^( *)# <configuration: {name}>\n.*?^ *# </configuration>\n", re.M | re.S)
        found = mark.search(text)
        if not found:
            sys.exit(f"template.yaml has no mark <configuration: {name}>")
        indent = found[1]
        body = "".join(f"{indent}{line}\n" for line in lines)
        new = f"{indent}# <configuration: {name}>\n{body}{indent}# </configuration>\n"
        text = text[: found.start()] + new + text[found.end() :]
    return text


def _pattern_lines() -> Iterator[str]:
    """The length, and the pattern as a YAML text over several lines: a backslash joins a line to the next."""
    text = pattern(ROWS)
    yield f"MaxLength: {MAX_CHARS}"
    assert not set('"\\') & set(text), "the pattern would need escapes in YAML"
    yield 'AllowedPattern: "\\'
    parts = re.split(r"(?<=\|)", text)
    line = ""
    for part in parts:
        if len(line) + len(part) > WIDTH - 8:
            yield f"  {line}\\"
            line = ""
        line += part
    yield f'  {line}"'


def _pace_lines() -> Iterator[str]:
    yield "Mappings:"
    yield "  Pace:"
    for name, pace in PACES.items():
        yield f"    {name}:"
        pairs = " ".join(f"{key}:\xa0{value}," for key, value in pace.rows().items())
        lines = [line.replace("\xa0", " ") for line in textwrap.wrap(pairs.rstrip(","), WIDTH - 8)]
        yield f"      {{ {lines[0]}"
        yield from (f"        {line}" for line in lines[1:-1])
        yield f"        {lines[-1]} }}"


def documentation(body: dict[str, Any]) -> str:
    """docs/configuration.md for the template `body`."""
    return "\n".join([INTRODUCTION, *_parameter_lines(body), *_setting_lines(), *_mapping_lines()])


def _parameter_lines(body: dict[str, Any]) -> Iterator[str]:
    yield "## Parameters of the template"
    for group in body["Metadata"]["AWS::CloudFormation::Interface"]["ParameterGroups"]:
        yield from (
            "",
            f"### {group['Label']['default']}",
            "",
            "| parameter | default | allowed | |",
            "|---|---|---|---|",
        )
        for name in group["Parameters"]:
            row = body["Parameters"][name]
            yield f"| `{name}` | {_code(row['Default'])} | {_allowed(row)} | {row['Description']} |"


def _allowed(parameter: dict[str, Any]) -> str:
    if "AllowedValues" in parameter:
        return ", ".join(map(_code, parameter["AllowedValues"]))
    if parameter["Type"] == "Number":
        return f"{parameter['MinValue']:,} to {parameter['MaxValue']:,}"
    return str(parameter["ConstraintDescription"])


def _setting_lines() -> Iterator[str]:
    yield from ("", "## Settings")
    section = ""
    for name, row in sorted(ROWS.items(), key=lambda item: _sections().index(item[1].section)):
        if row.section != section:
            section = row.section
            yield from ("", f"### {section}", "", "| setting | default | allowed | unit | |", "|---|---|---|---|---|")
        yield f"| `{name}` | {_code(_default(name, row))} | {row.allowed} | {row.unit} | {row.doc} |"


def _sections() -> list[str]:
    return list(dict.fromkeys(row.section for row in ROWS.values()))


def _default(name: str, row: Setting) -> Value:
    return write({name: row.default}).partition("=")[2]


def _mapping_lines() -> Iterator[str]:
    yield from (
        "",
        "## Time limits, batches, silences",
        "",
        "Chosen by the parameter `Pace`; values in seconds, batches in messages.",
    )
    yield from ("", f"| | {' | '.join(PACES)} |", f"|---{'|---' * len(PACES)}|")
    columns = [pace.rows() for pace in PACES.values()]
    for name in columns[0]:
        yield f"| `{name}` | {' | '.join(f'{column[name]:,}' for column in columns)} |"
    yield ""


def _code(value: object) -> str:
    return f"`{value}`" if value not in ("", ()) else ""


def problems(parameters: dict[str, dict[str, str]], body: dict[str, Any]) -> Iterator[str]:
    """What is wrong with the parameters that each environment of samconfig.toml passes."""
    for environment, given in parameters.items():
        for name in given.keys() - body["Parameters"].keys():
            yield f"samconfig.toml, {environment}: {name} is not a parameter of template.yaml"
        for line in check(given.get("Overrides", "")):
            yield f"samconfig.toml, {environment}: {line}"


def main(arguments: list[str]) -> int:
    """Writes the files, or with --check compares them; returns the exit code."""
    text = template_text(TEMPLATE.read_text(encoding="utf-8"))
    if not arguments:
        TEMPLATE.write_text(text, encoding="utf-8")
    body = template.load(TEMPLATE)
    made = {TEMPLATE: text, DOCS: documentation(body)}
    if not arguments:
        DOCS.write_text(made[DOCS], encoding="utf-8")
        return 0
    found = [f"{path.name} is not what `make configuration` writes" for path in made if path.read_text() != made[path]]
    found += problems(json.loads(Path(arguments[1]).read_text()), body)
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
