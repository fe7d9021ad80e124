"""The parameters of the local stack: valid for the template, for any name of the folder."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from proxypool.cli.settings_check import check_overrides
from proxypool.config.overrides import parse
from proxypool.config.settings import SETTING_SPECS
from proxypool.local.emulation import template
from proxypool.local.stack import Plan, template_parameters
from proxypool.local.user_sources import JudgeConfig

from tests.support.servers import ROOT

JUDGE = JudgeConfig(url="http://127.0.0.1:8790/", https_url="https://127.0.0.1:8791/", key="k")
ECHO = JudgeConfig(url="http://echo.example/get?a=1,2&b=3")


@pytest.mark.parametrize("judge", [JUDGE, ECHO])
@pytest.mark.parametrize("folder", ["/home/me/pool/.local", "/Users/Jo Doe/c++, ünïcode & 100%/.local"])
def test_the_local_stacks_parameters_are_valid(folder: str, judge: JudgeConfig) -> None:
    known = template.load(ROOT / "template.yaml")["Parameters"]

    found = template_parameters(Plan(root=ROOT, folder=Path(folder)), judge, "redis://127.0.0.1:6390")

    values, _ = parse(found["Overrides"], SETTING_SPECS)
    assert found.keys() <= known.keys()
    assert check_overrides(found["Overrides"]) == []
    assert all(re.fullmatch(known[name].get("AllowedPattern", ".*"), value) for name, value in found.items())
    assert values["judge_ca_file"] == f"{folder}/demo/ca.pem"
    assert values.get("judge_echo_urls", ()) == (() if judge.key else (judge.url,))


def test_settings_of_a_plan_replace_those_of_the_local_stack() -> None:
    plan = Plan(
        root=ROOT, folder=Path("/p"), settings={"allow_files": False, "sweep_page": 7}, parameters={"Pace": "normal"}
    )

    found = template_parameters(plan, JUDGE, "redis://127.0.0.1:6390")

    values, _ = parse(found["Overrides"], SETTING_SPECS)
    assert (values["allow_files"], values["sweep_page"], values["allow_loopback"]) == (False, 7, True)
    assert found["Pace"] == "normal"
