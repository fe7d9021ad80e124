"""The generated parts of template.yaml, infra/monitoring.yaml and docs/configuration.md, and the check of samconfig.toml."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from proxypool.local.emulation import template

from tools import configuration

BODY = template.load(configuration.TEMPLATE)


def test_the_generated_parts_are_up_to_date() -> None:
    text = configuration.TEMPLATE.read_text(encoding="utf-8")
    monitoring = configuration.MONITORING.read_text(encoding="utf-8")

    assert configuration.template_text(text) == text
    assert configuration.monitoring_text(monitoring) == monitoring
    assert configuration.documentation(BODY) == configuration.DOCS.read_text(encoding="utf-8")


def test_a_manual_edit_of_a_generated_part_is_overwritten() -> None:
    text = configuration.TEMPLATE.read_text(encoding="utf-8")
    edited = text.replace("sweep_page|", "sweep_pages|").replace(
        "ScrapeVisibilitySeconds: 360", "ScrapeVisibilitySeconds: 60"
    )

    assert edited != text
    assert configuration.template_text(edited) == text


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"Pool": "dev", "Overrides": "sweep_page=100"}, None),
        ({"SweepPage": "100"}, "samconfig.toml, dev: SweepPage is not a parameter of template.yaml"),
        ({"Overrides": "sweep_pages=100"}, "samconfig.toml, dev: 'sweep_pages' is not a setting"),
        ({"Overrides": "sweep_page=0"}, "samconfig.toml, dev: sweep_page: 0 is not an integer from 1 to 1,000"),
        ({"Overrides": "claim_seconds=1"}, "samconfig.toml, dev: claim_seconds (1) must be from 150 to 719"),
    ],
)
def test_the_parameters_of_samconfig_are_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], given: dict[str, str], message: str | None
) -> None:
    """In the format that tools/sam_parameters.py writes."""
    file = tmp_path / "parameters.json"
    file.write_text(json.dumps({"dev": given}))

    code = configuration.main(["--check", str(file)])

    printed = capsys.readouterr().out
    assert (code, printed == "") == ((1, False) if message else (0, True))
    assert printed.startswith(message or "")
