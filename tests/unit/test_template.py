"""template.yaml and infra/ against the code: settings, metrics, events, and what AWS asks for between numbers."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from proxypool.events import Event
from proxypool.local import template
from proxypool.settings import Settings
from proxypool.telemetry import Metric

ROOT = Path(__file__).parents[2]
TEMPLATE = template.load(ROOT / "template.yaml")
RESOURCES: dict[str, Any] = TEMPLATE["Resources"]
FUNCTIONS = {
    name: item["Properties"] for name, item in RESOURCES.items() if item["Type"] == "AWS::Serverless::Function"
}
SHARED = TEMPLATE["Globals"]["Function"]["Environment"]["Variables"]


def _default(parameter: str) -> Any:
    return TEMPLATE["Parameters"][parameter]["Default"]


def _events(kind: str) -> dict[str, Any]:
    return {
        f"{name}.{label}": event["Properties"]
        for name, function in FUNCTIONS.items()
        for label, event in function.get("Events", {}).items()
        if event["Type"] == kind
    }


def test_every_setting_is_fed_by_the_template_and_nothing_else_is() -> None:
    """Settings and the functions' environments hold the same names, both ways."""
    own = [function.get("Environment", {}).get("Variables", {}) for function in FUNCTIONS.values()]

    fed = set(SHARED).union(*own) - {"POWERTOOLS_LOG_LEVEL"}

    assert fed == {field.name.upper() for field in fields(Settings)}


def test_a_parameter_has_the_default_that_the_setting_has() -> None:
    """One number, one default: the documented one."""
    for field in fields(Settings):
        source = SHARED.get(field.name.upper())
        parameter = str(source["Ref"]) if isinstance(source, dict) else ""
        if parameter in TEMPLATE["Parameters"]:
            given = _default(parameter)
            wanted = str(field.default).lower() if isinstance(field.default, bool) else field.default
            assert given == wanted, field.name


def test_the_dashboard_shows_every_metric_and_no_other() -> None:
    """Each metric is on the dashboard or does not exist."""
    body = (ROOT / "infra/dashboard.yaml").read_text()

    assert set(re.findall(r'"title": "(\w+)"', body)) == {metric.value for metric in Metric}


def test_the_dashboard_is_json() -> None:
    """CloudWatch refuses a body that is not."""
    dashboard = template.load(ROOT / "infra/dashboard.yaml")["Resources"]["Dashboard"]["Properties"]

    assert json.loads(dashboard["DashboardBody"]["Fn::Sub"])["widgets"]


def test_an_alarm_watches_only_metrics_that_exist() -> None:
    """An alarm on a metric that nobody writes is silent for ever."""
    alarms = template.load(ROOT / "infra/alarms.yaml")["Resources"].values()
    watched = {item["Properties"]["MetricName"] for item in alarms if item["Properties"]["Namespace"] == "ProxyPool"}

    assert watched <= {metric.value for metric in Metric}


@pytest.mark.parametrize("stage", ["Scrape", "Validate"])
def test_a_message_stays_hidden_six_times_as_long_as_its_function_may_run(stage: str) -> None:
    """AWS asks for 6 x; a crash must not hand the message out while the first run still works."""
    queue = RESOURCES[f"{stage}Queue"]["Properties"]

    assert queue["VisibilityTimeout"] == {"Ref": f"{stage}VisibilitySeconds"}
    assert _default(f"{stage}VisibilitySeconds") >= 6 * _default(f"{stage}TimeLimitSeconds")
    assert queue["RedrivePolicy"]["maxReceiveCount"] == 3


def test_a_sources_claim_outlives_its_run_and_ends_before_the_message_comes_again() -> None:
    """Else a second run would work beside the first, or a retry after a crash would find the source taken."""
    assert _default("ScrapeTimeLimitSeconds") < _default("ScrapeClaimSeconds") < _default("ScrapeVisibilitySeconds")


def test_every_function_has_a_log_group_that_forgets() -> None:
    """Logs are kept for a stated time, never for ever."""
    for function in FUNCTIONS.values():
        logs = RESOURCES[function["LoggingConfig"]["LogGroup"]["Ref"]]
        assert logs["Properties"]["RetentionInDays"] == {"Ref": "LogRetentionDays"}


def test_every_function_has_its_folder_and_its_sample_event() -> None:
    """The template and events/ name the same functions."""
    folders = {function["CodeUri"].removeprefix("functions/") for function in FUNCTIONS.values()}

    assert len(folders) == 11
    assert folders == {path.stem for path in (ROOT / "events").glob("*.json")}


def test_the_schedules_are_the_documented_ones() -> None:
    """Five schedules, in UTC, with no retry of their own."""
    schedules = _events("ScheduleV2")

    assert {_default(item["ScheduleExpression"]["Ref"]) for item in schedules.values()} == {
        "cron(0,30 * * * ? *)",
        "cron(10,25,40,55 * * * ? *)",
        "cron(0 3 * * ? *)",
        "cron(0 4 * * ? *)",
        "rate(1 minute)",
    }
    for name, item in schedules.items():
        assert item["RetryPolicy"] == {"MaximumRetryAttempts": 0}
        assert FUNCTIONS[name.partition(".")[0]]["EventInvokeConfig"] == {"MaximumRetryAttempts": 0}


def test_no_policy_of_a_function_reaches_every_resource() -> None:
    """Least privilege: each statement names what it is for."""
    for name, function in FUNCTIONS.items():
        text = json.dumps(function.get("Policies", []))
        assert '"*"' not in text, name
        assert not re.search(r'"[a-z0-9-]+:\*"', text), name


def test_the_lease_function_may_reach_the_cache_alone() -> None:
    """It holds no right in DynamoDB, SQS or Secrets Manager."""
    assert set(re.findall(r'"(\w+:\w+)"', json.dumps(FUNCTIONS["LeaseFunction"]["Policies"]))) == {
        "elasticache:Connect"
    }


def test_iam_names_are_left_to_aws() -> None:
    """A custom name would ask for CAPABILITY_NAMED_IAM and collide with a second stack."""
    for item in RESOURCES.values():
        assert not {"RoleName", "ManagedPolicyName", "UserName", "GroupName"} & item.get("Properties", {}).keys()


def test_nobody_uses_the_api_without_an_identity() -> None:
    """IAM is the default of every route; none switches it off."""
    assert RESOURCES["Api"]["Properties"]["Auth"]["DefaultAuthorizer"] == "AWS_IAM"
    assert all("Auth" not in route for route in _events("HttpApi").values())


@pytest.mark.parametrize("event", list(Event))
def test_every_event_of_the_bus_has_a_schema_and_a_sample_that_fits(event: Event) -> None:
    """Consumers are written against these files."""
    folder = ROOT / "events/bus"
    schema, sample = (json.loads((folder / f"{event}{end}").read_text()) for end in (".schema.json", ".json"))

    jsonschema.validate(sample, schema)

    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({}, schema)
