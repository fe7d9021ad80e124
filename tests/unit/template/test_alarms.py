"""The alarms of infra/monitoring.yaml watch metrics with the names and dimensions that the code writes."""

from __future__ import annotations

import ast
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from proxypool.config.settings import SETTING_SPECS
from proxypool.local.emulation import template
from proxypool.manage.stats import TASKS
from proxypool.telemetry import Metric, count, count_by, flush

ROOT = Path(__file__).parents[3]
ALARMS: dict[str, Any] = {
    name: item["Properties"]
    for name, item in template.load(ROOT / "infra/monitoring.yaml")["Resources"].items()
    if item["Type"] == "AWS::CloudWatch::Alarm"
}
POOL_ALARMS = {name: alarm for name, alarm in ALARMS.items() if alarm.get("Namespace") == "ProxyPool"}
WITHOUT_ALARM = {
    Metric.SOURCES_ENQUEUED: "a count of work; the alarms on silence notice its absence",
    Metric.SOURCES_SCRAPED: "a count of work",
    Metric.SOURCES_FAILED: "its message is in the dead-letter queue, which has an alarm",
    Metric.LINES_REJECTED: "invalid lines are normal",
    Metric.PROXIES_DISCOVERED: "a count of work",
    Metric.PROXIES_UPDATED: "a count of work",
    Metric.SSRF_BLOCKED: "blocked, and normal in lists; the log has the source",
    Metric.PROXIES_ENQUEUED: "a count of work",
    Metric.CHECKS_PASSED: "a count of work; PoolLow has the alarm",
    Metric.CHECKS_FAILED: "proxies die",
    Metric.CHECKS_INCONCLUSIVE: "JudgeDown has the alarm",
    Metric.CHECKS_SUPERSEDED: "duplicates are expected",
    Metric.PROXIES_PRUNED: "a count of work",
    Metric.CHECKS_PRUNED: "a count of work",
    Metric.PROXIES_INDEXED: "a count of work",
    Metric.PROXIES_READY: "a gauge; PoolLow compares it with the setting pool_low_mark, and has the alarm",
    Metric.INDEX_LAG: "AWS/Lambda IteratorAge has the alarm: it also grows while the function hangs",
    Metric.LEASES_GRANTED: "a count of work",
    Metric.LEASES_RENEWED: "a count of work",
    Metric.LEASES_RELEASED: "a count of work",
    Metric.LEASES_EXPIRED: "callers forget to release; the lease has ended",
    Metric.LEASES_REFUSED: "PoolLow and the API's 5xx have the alarms; a quota is the caller's",
    Metric.LEASES_OPEN: "a gauge for the dashboard",
    Metric.PROXIES_CAPPED: "the caps work as intended; `sources list` has the counts",
    Metric.JOBS_DONE: "a count of work",
    Metric.JOBS_FAILED: "pages fail; the event has the job",
    Metric.JOBS_BLOCKED: "targets ban; the event has the job",
    Metric.JOBS_REQUEUED: "jobs wait for a proxy or for the rate limit of a domain",
    Metric.JOB_BYTES: "a count of bytes",
    Metric.COOKIES_DROPPED: "a site sets more than a session stores",
}


@cache
def emissions() -> dict[Metric, set[str]]:
    """The dimensions of each metric, from the calls of `count` ("service") and `count_by` in the code."""
    found: dict[Metric, set[str]] = {}
    for path in (ROOT / "layers/core/proxypool").rglob("*.py"):
        if path.name == "telemetry.py":
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        by_dimension: set[int] = set()
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            if isinstance(call.func, ast.Name) and call.func.id == "count_by":
                dimension = call.args[2]
                assert isinstance(dimension, ast.Constant), f"{path}: a dimension is a constant"
                by_dimension.add(id(call.args[0]))
                found.setdefault(_metric(call.args[0]), set()).add(str(dimension.value))
        for node in ast.walk(tree):
            if id(node) not in by_dimension and _is_metric(node):
                found.setdefault(_metric(node), set()).add("service")
    return found


def _is_metric(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Metric"


def _metric(node: ast.AST) -> Metric:
    assert isinstance(node, ast.Attribute)
    return Metric[node.attr]


def dimensions(alarm: dict[str, Any]) -> dict[str, Any]:
    return {one["Name"]: one["Value"] for one in alarm["Dimensions"]}


def test_each_metric_is_written_with_one_dimension() -> None:
    """A sum over two dimensions would count twice; a metric that the code never writes does not exist."""
    found = emissions()

    assert found.keys() == set(Metric)
    assert {metric: names for metric, names in found.items() if len(names) > 1} == {}


def test_a_count_has_the_dimension_service_and_a_count_by_only_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    """The alarms depend on it."""
    count(Metric.JUDGE_DOWN)
    flush()
    count_by(Metric.TASKS_FAILED, 1, "task", "scrape_all")

    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    metrics = [line["_aws"]["CloudWatchMetrics"][0] for line in lines]
    assert [metric["Namespace"] for metric in metrics] == ["ProxyPool", "ProxyPool"]
    assert [metric["Dimensions"] for metric in metrics] == [[["service"]], [["task"]]]
    assert (lines[0]["service"], lines[1]["task"]) == ("proxypool", "scrape_all")


def test_the_values_of_dimensions_are_a_closed_set() -> None:
    """Input 90: a task's name, or a reason from a list, else "other"; no external input becomes a dimension."""
    values: dict[str, set[str]] = {}
    for path in (ROOT / "layers/core/proxypool").rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "count_by":
                values.setdefault(ast.literal_eval(call.args[2]), set()).add(ast.unparse(call.args[3]))

    assert values == {"task": {"task"}, "reason": {"reason if reason in REFUSAL_REASONS else 'other'"}}


@pytest.mark.parametrize("name", POOL_ALARMS)
def test_an_alarm_has_the_dimension_of_its_metric(name: str) -> None:
    """An alarm on another dimension, or on a task that does not exist, never fires."""
    alarm = POOL_ALARMS[name]
    (dimension, value), *more = dimensions(alarm).items()

    assert not more
    assert {dimension} == emissions()[Metric(alarm["MetricName"])]
    assert value in {"service": {"proxypool"}, "task": set(TASKS)}[dimension]


def test_each_metric_has_an_alarm_or_a_reason_to_have_none() -> None:
    """An alarm is for a metric that a person must act on."""
    watched = {Metric(alarm["MetricName"]) for alarm in POOL_ALARMS.values()}

    assert watched | WITHOUT_ALARM.keys() == set(Metric)
    assert not watched & WITHOUT_ALARM.keys()


def test_every_scheduled_task_has_an_alarm_on_failure() -> None:
    """They are not retried; messages of queues end in a dead-letter queue."""
    watched = {
        dimensions(alarm)["task"] for alarm in POOL_ALARMS.values() if alarm["MetricName"] == Metric.TASKS_FAILED
    }
    queues = {name for name in ALARMS if name.endswith("DeadLetters")}

    assert watched == set(TASKS) - {"scrape_source", "validate_proxy", "fetch_page"}
    assert queues == {"ScrapeDeadLetters", "ValidateDeadLetters", "FetchDeadLetters", "IndexDeadLetters"}


def test_the_template_passes_each_parameter_to_the_nested_stack() -> None:
    passed = template.load(ROOT / "template.yaml")["Resources"]["MonitoringStack"]["Properties"]["Parameters"]

    assert passed.keys() == template.load(ROOT / "infra/monitoring.yaml")["Parameters"].keys()


def test_the_alarm_on_the_journal_fires_before_grants_stop() -> None:
    """For every value that journal_max can have."""
    assert ALARMS["JournalIsLong"]["Threshold"] < SETTING_SPECS["journal_max"].low


def test_the_dashboard_is_json_with_one_widget_per_metric() -> None:
    """Each searches for the metric in its title, with any dimension. CloudWatch rejects a body that is not JSON."""
    dashboard = template.load(ROOT / "infra/monitoring.yaml")["Resources"]["Dashboard"]["Properties"]

    widgets = json.loads(dashboard["DashboardBody"]["Fn::Sub"])["widgets"]

    assert [widget["properties"]["title"] for widget in widgets] == [metric.value for metric in Metric]
    for widget in widgets:
        (((metric,),),) = (widget["properties"]["metrics"],)
        assert re.findall(r'MetricName="(\w+)"', metric["expression"]) == [widget["properties"]["title"]]
