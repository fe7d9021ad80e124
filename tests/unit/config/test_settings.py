"""Settings and overrides: types, validation, defaults for invalid overrides."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace
from pathlib import Path

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st
from proxypool.cli.settings_check import check_overrides
from proxypool.config import settings as module
from proxypool.config.overrides import SettingSpec, Value, parse, pattern, serialize
from proxypool.config.settings import OVERRIDES, SETTING_SPECS, Settings, overrides, read_environment
from proxypool.errors import ConfigurationError
from proxypool.local.emulation import template

ROOT = Path(__file__).parents[3]
UNQUOTED = re.compile(r"[A-Za-z0-9._~:/@%#=+,-]*")  # unquoted in sh, bash and zsh


def valid(row: SettingSpec) -> st.SearchStrategy[Value]:
    """Values of a row."""
    if isinstance(row.default, bool):
        return st.booleans()
    if isinstance(row.default, int):
        return st.integers(int(row.low), int(row.high))
    if isinstance(row.default, float):
        return st.integers(int(row.low * 10), int(row.high * 10)).map(lambda tenths: tenths / 10)
    if row.choices:
        return st.sampled_from(row.choices)
    texts = (
        st.text(min_size=1).filter(str.isprintable)
        if row.pattern == ".*"
        else st.from_regex(row.pattern, fullmatch=True)
    )
    texts = texts.filter(lambda text: text.isprintable() and bool(re.fullmatch(row.pattern, text)))
    return st.lists(texts, min_size=1, max_size=3).map(tuple) if isinstance(row.default, tuple) else texts


SETTINGS = st.fixed_dictionaries({}, optional={name: valid(row) for name, row in SETTING_SPECS.items()})


@hypothesis.settings(deadline=None)
@given(SETTINGS)
def test_overrides_are_parsed_as_written_and_need_no_quotes(values: dict[str, Value]) -> None:
    """And CloudFormation accepts it."""
    text = serialize(values)

    assert parse(text, SETTING_SPECS) == (values, [])
    assert UNQUOTED.fullmatch(text)
    assert re.fullmatch(pattern(SETTING_SPECS), text)


def test_each_setting_is_parsed_by_its_type() -> None:
    config, problems = read_environment(
        {
            OVERRIDES: "lease_seconds=5,allow_loopback=true,check_connect_seconds=0.5,check_skip=https+targets",
            "POOL": "a",
        }
    )

    assert problems == []
    assert asdict(config) == asdict(
        Settings(
            lease_seconds=5, allow_loopback=True, check_connect_seconds=0.5, check_skip=("https", "targets"), pool="a"
        )
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lease_second=5", "'lease_second' is not a setting"),  # unknown
        ("pool=other", "'pool' is not a setting"),  # a parameter of the template
        ("lease_seconds", "lease_seconds: '' is not an integer from 1 to 900"),
        ("lease_seconds=", "lease_seconds: '' is not an integer from 1 to 900"),
        ("lease_seconds=soon", "lease_seconds: 'soon' is not an integer from 1 to 900"),
        ("lease_seconds=0", "lease_seconds: 0 is not an integer from 1 to 900"),
        ("lease_seconds=901", "lease_seconds: 901 is not an integer from 1 to 900"),
        ("lease_seconds=٣", "lease_seconds: '٣' is not an integer from 1 to 900"),  # a digit to int()
        ("lease_seconds= 5", "lease_seconds: ' 5' is not an integer from 1 to 900"),
        ("lease_seconds=5,lease_seconds=6", "lease_seconds occurs more than once"),
        ("check_connect_seconds=nan", "check_connect_seconds: 'nan' is not a number from 0.1 to 60"),
        ("check_connect_seconds=1e1", "check_connect_seconds: '1e1' is not a number from 0.1 to 60"),
        ("allow_loopback=yes", "allow_loopback: 'yes' is not true or false"),
        ("cache_loss=none", "cache_loss: 'none' is not one of strict, availability"),
        ("check_skip=", "check_skip: '' is not a percent-encoded text with + between items"),
        ("check_skip=https++http", "check_skip: 'https++http' is not a percent-encoded text with + between items"),
        ("judge_ca_file=/a b", "judge_ca_file: '/a b' is not a percent-encoded text"),
        ("judge_ca_file=/a%FF", "judge_ca_file: '/a%FF' is not"),  # not UTF-8
        ("judge_ca_file=/a%2", "judge_ca_file: '/a%2' is not a percent-encoded text"),
        ("judge_ca_file=/a%0Ab", r"judge_ca_file: '/a\nb' is not valid: it must match .*"),
        ("judge_ca_file=/a%00b", r"judge_ca_file: '/a\x00b' is not valid: it must match .*"),
        ("canary_urls=https://a.example/#12", "is not valid: it must match https?://"),
        (",", "'' is not a setting"),
        ("lease_seconds=5,", "'' is not a setting"),
    ],
)  # fmt: skip
def test_an_invalid_override_is_reported_and_has_its_default(text: str, message: str) -> None:
    config, problems = read_environment({OVERRIDES: text})

    assert any(message in problem for problem in problems)
    assert asdict(replace(config, lease_seconds=60)) == asdict(Settings())
    assert check_overrides(text)


@pytest.mark.parametrize(
    "text", ["lease_seconds=5,lease_seconds=6", "lease_seconds=5,lease_seconds=5", "lease_seconds=901"]
)
def test_a_setting_that_cannot_be_read_has_no_value_but_its_default(text: str) -> None:
    """Neither the first nor the last of two values, and no bound of its range."""
    assert asdict(read_environment({OVERRIDES: f"owner_quota=7,{text}"})[0]) == asdict(Settings(owner_quota=7))


@pytest.mark.parametrize(
    ("text", "is_accepted"),
    [
        ("", True),
        ("sweep_page=100,owner_quota=50", True),
        ("check_skip=integrity_https+targets,pool_low_filters=country=us:https=true+kind=residential", True),
        (f"canary_urls=https://a.example/%2C#{'0' * 64}", True),
        ("sweep_pages=100", False),
        ("sweep_page=many", False),
        ("sweep_page=100;owner_quota=50", False),
        ("sweep_page=100 owner_quota=50", False),
        (",sweep_page=100", False),
        ("allow_loopback=1", False),
        ("sweep_page", False),
    ],
)
def test_cloudformation_refuses_unknown_names_and_wrong_shapes(text: str, is_accepted: bool) -> None:
    """By the AllowedPattern of the template."""
    parameter = template.load(ROOT / "template.yaml")["Parameters"]["Overrides"]

    assert bool(re.fullmatch(parameter["AllowedPattern"], text)) is is_accepted


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lease_seconds=100,max_lease_seconds=50", "lease_seconds (100) exceeds max_lease_seconds (50)"),
        ("claim_seconds=120", "claim_seconds (120) must be from 150 to 719"),  # the time limit of the function
        ("claim_seconds=720", "claim_seconds (720) must be from 150 to 719"),  # the visibility timeout
        ("scrape_claim_seconds=60", "scrape_claim_seconds (60) must be from 90 to 359"),
        ("job_run_seconds=120", "job_run_seconds (120) must be from 0 to 119"),
        ("check_total_seconds=300", "check_total_seconds (300) must be from 0 to 120"),
        ("active_recheck_seconds=7200", "active_recheck_seconds (7200) exceeds max_age_seconds (3600)"),
        ("check_skip=integrity+htps", "check_skip: 'htps' is not a stage of a check; the stages are reachable, http,"),
        ("pool_low_filters=colour=blue", "pool_low_filters: 'colour' is not a filter"),
    ],
)
def test_settings_that_depend_on_each_other_are_checked_together(text: str, message: str) -> None:
    (problem,) = check_overrides(text)

    assert problem.startswith(message)


def test_a_text_that_is_too_long_for_the_environment_is_refused() -> None:
    assert check_overrides(f"judge_ca_file=/{'a' * 1_300}") == ["1,315 characters exceed the 1,300 of the parameter"]


def test_the_defaults_are_valid() -> None:
    """Each of them, and their combination."""
    text = serialize({name: row.default for name, row in SETTING_SPECS.items()})

    assert check_overrides(text) == check_overrides("") == []


def test_writing_an_unknown_override_is_an_error() -> None:
    with pytest.raises(KeyError, match="lease_second"):
        overrides(lease_second=5)


def test_an_ignored_setting_is_logged_and_counted_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The function continues; an alarm watches the metric."""
    monkeypatch.setenv(OVERRIDES, "owner_quota=7,lease_seconds=0")
    module.settings.cache_clear()

    try:
        configs = [module.settings() for _ in range(2)]
    finally:
        module.settings.cache_clear()

    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines() if "SettingsIgnored" in line]
    assert [(config.owner_quota, config.lease_seconds) for config in configs] == [(7, 60)] * 2
    assert [line["SettingsIgnored"] for line in lines] == [[1.0]]


def test_a_missing_required_setting_is_an_error_with_its_variable() -> None:
    with pytest.raises(ConfigurationError, match="PROXIES_TABLE"):
        Settings().need("proxies_table")
