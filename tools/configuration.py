"""Generates parts of template.yaml and docs/configuration.md from the table of settings, and the dashboard from that of metrics.

`configuration.py` writes the files. `configuration.py --check PARAMETERS` compares them instead, and checks the parameters in
samconfig.toml, as read by tools/sam_parameters.py; it exits with 1 if a file differs or a parameter is invalid.
"""

from __future__ import annotations

import json
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from proxypool.cli.settings_check import check_overrides
from proxypool.config.overrides import MAX_CHARS, SettingSpec, Value, pattern, serialize
from proxypool.config.settings import SETTING_SPECS
from proxypool.config.time_limits import PACES
from proxypool.local.emulation import template
from proxypool.telemetry import GAUGES, NAMESPACE, Metric

ROOT = Path(__file__).parents[1]
TEMPLATE = ROOT / "template.yaml"
MONITORING = ROOT / "infra/monitoring.yaml"
DOCS = ROOT / "docs/configuration.md"
WIDTH = 118
WIDGET = (
    '{"type": "metric", "width": 8, "height": 5, "properties": {"title": "%(metric)s", "region": "${AWS::Region}", "stat": "%(stat)s",'
    ' "period": 300, "metrics": [[{"expression": "SEARCH(\'Namespace=\\"%(namespace)s\\" MetricName=\\"%(metric)s\\"\', \'%(stat)s\', 300)"}]]}}'
)
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
    return _replace_part(_replace_part(text, "pattern", _pattern_lines()), "paces", _pace_lines())


def monitoring_text(text: str) -> str:
    """The text of infra/monitoring.yaml with its generated dashboard."""
    return _replace_part(text, "dashboard", _dashboard_lines())


def _replace_part(text: str, name: str, lines: Iterable[str]) -> str:
    part = re.search(rf"^( *)# <configuration: {name}>\n.*?^ *# </configuration>\n", text, re.M | re.S)
    if not part:
        sys.exit(f"there is no mark <configuration: {name}>")
    indent = part[1]
    body = "".join(f"{indent}{line}\n" for line in lines)
    new = f"{indent}# <configuration: {name}>\n{body}{indent}# </configuration>\n"
    return text[: part.start()] + new + text[part.end() :]


def _dashboard_lines() -> Iterator[str]:
    """One widget per metric; widgets without coordinates are placed in their order."""
    yield "DashboardBody: !Sub |"
    yield '  {"widgets": ['
    for number, metric in enumerate(Metric, 1):
        values = {"metric": metric, "stat": "Maximum" if metric in GAUGES else "Sum", "namespace": NAMESPACE}
        yield f"    {WIDGET % values}{',' if number < len(Metric) else ''}"
    yield "  ]}"


def _pattern_lines() -> Iterator[str]:
    """The length, and the pattern as a quoted YAML scalar over several lines; a backslash continues a line."""
    text = pattern(SETTING_SPECS)
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
    for name, row in sorted(SETTING_SPECS.items(), key=lambda item: _sections().index(item[1].section)):
        if row.section != section:
            section = row.section
            yield from ("", f"### {section}", "", "| setting | default | allowed | unit | |", "|---|---|---|---|---|")
        yield f"| `{name}` | {_code(_default(name, row))} | {row.allowed} | {row.unit} | {row.doc} |"


def _sections() -> list[str]:
    return list(dict.fromkeys(row.section for row in SETTING_SPECS.values()))


def _default(name: str, row: SettingSpec) -> Value:
    return serialize({name: row.default}).partition("=")[2]


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
    """The invalid parameters of each environment in samconfig.toml, one message each."""
    for environment, given in parameters.items():
        for name in given.keys() - body["Parameters"].keys():
            yield f"samconfig.toml, {environment}: {name} is not a parameter of template.yaml"
        for line in check_overrides(given.get("Overrides", "")):
            yield f"samconfig.toml, {environment}: {line}"


def main(arguments: list[str]) -> int:
    """Writes the files, or with --check compares them; returns the exit code."""
    text = template_text(TEMPLATE.read_text(encoding="utf-8"))
    if not arguments:
        TEMPLATE.write_text(text, encoding="utf-8")
    body = template.load(TEMPLATE)
    generated = {
        TEMPLATE: text,
        DOCS: documentation(body),
        MONITORING: monitoring_text(MONITORING.read_text(encoding="utf-8")),
    }
    if not arguments:
        for path, new in generated.items():
            path.write_text(new, encoding="utf-8")
        return 0
    messages = [
        f"{path.name} differs: run `make configuration`" for path, new in generated.items() if path.read_text() != new
    ]
    messages += problems(json.loads(Path(arguments[1]).read_text()), body)
    print("\n".join(messages), end="\n" if messages else "")
    return 1 if messages else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
