"""infra/alarms.yaml and the dashboard against what the code writes: a metric is alarmed on as it is really written."""

from __future__ import annotations

import ast
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from proxypool.config.settings import ROWS
from proxypool.local.emulation import template
from proxypool.manage.stats import TASKS
from proxypool.telemetry import Metric, count, count_by, flush

ROOT = Path(__file__).parents[3]
ALARMS: dict[str, Any] = {
    name: item["Properties"] for name, item in template.load(ROOT / "infra/alarms.yaml")["Resources"].items()
}
OURS = {name: alarm for name, alarm in ALARMS.items() if alarm.get("Namespace") == "ProxyPool"}
NOBODY_IS_CALLED = {
    Metric.SOURCES_ENQUEUED: "a count of work; that it stays away is seen by the alarms on silence",
    Metric.SOURCES_SCRAPED: "a count of work",
    Metric.SOURCES_FAILED: "its message lies in the dead-letter queue, which has an alarm",
    Metric.LINES_REJECTED: "lists hold rubbish",
    Metric.PROXIES_DISCOVERED: "a count of work",
    Metric.PROXIES_UPDATED: "a count of work",
    Metric.SSRF_BLOCKED: "refused, and lists hold such addresses; the log names the source",
    Metric.PROXIES_ENQUEUED: "a count of work",
    Metric.CHECKS_PASSED: "a count of work; what a fall means is told by PoolLow",
    Metric.CHECKS_FAILED: "proxies die",
    Metric.CHECKS_INCONCLUSIVE: "JudgeDown has the alarm",
    Metric.CHECKS_SUPERSEDED: "duplicates are expected",
    Metric.PROXIES_PRUNED: "a count of work",
    Metric.CHECKS_PRUNED: "a count of work",
    Metric.PROXIES_INDEXED: "a count of work",
    Metric.PROXIES_READY: "a gauge; PoolLow compares it with the setting pool_low_mark, and has the alarm",
    Metric.PROJECTION_LAG: "AWS/Lambda IteratorAge has the alarm: it grows also while the function never ends",
    Metric.LEASES_GRANTED: "a count of work",
    Metric.LEASES_RENEWED: "a count of work",
    Metric.LEASES_RELEASED: "a count of work",
    Metric.LEASES_EXPIRED: "callers forget; the lease ended all the same",
    Metric.LEASES_REFUSED: "PoolLow and the API's 5xx have the alarms; a quota is the caller's",
    Metric.LEASES_OPEN: "a gauge to look at",
    Metric.PROXIES_HELD_BACK: "the bounds do their work; `sources list` names which",
    Metric.JOBS_DONE: "a count of work",
    Metric.JOBS_FAILED: "pages fail; the event says which",
    Metric.JOBS_BLOCKED: "targets ban; the event says which",
    Metric.JOBS_REQUEUED: "jobs wait for a proxy or a turn",
    Metric.JOB_BYTES: "a count of bytes",
    Metric.COOKIES_DROPPED: "a site sets more than a session keeps",
}


@cache
def emissions() -> dict[Metric, set[str]]:
    """Which dimension each metric is written with, read from the code's calls of `count` ("service") and `count_by`."""
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


def test_each_metric_is_written_in_one_way() -> None:
    """Each exists in the code, and always with the same dimension: a sum over two would count twice."""
    found = emissions()

    assert found.keys() == set(Metric)
    assert {metric: names for metric, names in found.items() if len(names) > 1} == {}


def test_a_count_has_the_dimension_service_and_a_count_by_only_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    """What CloudWatch is told: the alarms rest on it."""
    count(Metric.JUDGE_DOWN)
    flush()
    count_by(Metric.TASKS_FAILED, 1, "task", "scrape_all")

    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    told = [line["_aws"]["CloudWatchMetrics"][0] for line in lines]
    assert [one["Namespace"] for one in told] == ["ProxyPool", "ProxyPool"]
    assert [one["Dimensions"] for one in told] == [[["service"]], [["task"]]]
    assert (lines[0]["service"], lines[1]["task"]) == ("proxypool", "scrape_all")


def test_what_a_metric_is_counted_by_is_a_closed_set() -> None:
    """Input 90: a task's own name, or a reason that is known, else "other"; nothing that came from outside is a dimension."""
    values: dict[str, set[str]] = {}
    for path in (ROOT / "layers/core/proxypool").rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "count_by":
                values.setdefault(ast.literal_eval(call.args[2]), set()).add(ast.unparse(call.args[3]))

    assert values == {"task": {"task"}, "reason": {"reason if reason in REASONS else 'other'"}}


@pytest.mark.parametrize("name", OURS)
def test_an_alarm_watches_a_metric_as_it_is_written(name: str) -> None:
    """An alarm on another dimension, or on a task that does not exist, is silent for ever."""
    alarm = OURS[name]
    (dimension, value), *more = dimensions(alarm).items()

    assert not more
    assert {dimension} == emissions()[Metric(alarm["MetricName"])]
    assert value in {"service": {"proxypool"}, "task": set(TASKS)}[dimension]


def test_each_metric_has_an_alarm_or_a_reason_to_have_none() -> None:
    """A new metric asks: must a person act on it?"""
    watched = {Metric(alarm["MetricName"]) for alarm in OURS.values()}

    assert watched | NOBODY_IS_CALLED.keys() == set(Metric)
    assert not watched & NOBODY_IS_CALLED.keys()


def test_every_scheduled_task_is_told_when_it_fails() -> None:
    """Nothing tries them again; what queues feed ends in a dead-letter queue."""
    watched = {dimensions(alarm)["task"] for alarm in OURS.values() if alarm["MetricName"] == Metric.TASKS_FAILED}
    queues = {name for name in ALARMS if name.endswith("DeadLetters")}

    assert watched == set(TASKS) - {"scrape_source", "validate_proxy", "fetch_page"}
    assert queues == {"ScrapeDeadLetters", "ValidateDeadLetters", "FetchDeadLetters", "IndexDeadLetters"}


def test_the_template_passes_each_parameter_to_the_alarms() -> None:
    passed = template.load(ROOT / "template.yaml")["Resources"]["Alarms"]["Properties"]["Parameters"]

    assert passed.keys() == template.load(ROOT / "infra/alarms.yaml")["Parameters"].keys()


def test_the_alarm_on_the_journal_fires_before_grants_stop() -> None:
    """Whatever journal_max is set to."""
    assert ALARMS["JournalIsLong"]["Threshold"] < ROWS["journal_max"].low


def test_a_widget_searches_for_the_metric_in_its_title() -> None:
    """By name and whatever dimension: a metric shows up however it is written."""
    body = template.load(ROOT / "infra/dashboard.yaml")["Resources"]["Dashboard"]["Properties"]["DashboardBody"][
        "Fn::Sub"
    ]

    for widget in json.loads(body)["widgets"]:
        (((metric,),),) = (widget["properties"]["metrics"],)
        (named,) = re.findall(r'MetricName="(\w+)"', metric["expression"])
        assert named == widget["properties"]["title"]
