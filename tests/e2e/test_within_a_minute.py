"""What comes by itself within a minute: in the last file, so that the minute has passed while the others ran."""

from __future__ import annotations

import pytest
from proxypool.local import template
from proxypool.telemetry import NAMESPACE, Metric

from tests.support.servers import ROOT
from tests.support.stack import LocalStack, until

pytestmark = [pytest.mark.xdist_group("stack"), pytest.mark.timeout(120)]


def test_a_schedule_fires(stack: LocalStack) -> None:
    """More runs of prune_old_checks than these tests asked for: EventBridge Scheduler started them."""

    def runs() -> int:
        return sum(line.get("message") == "prune_old_checks done" for line in stack.log("PruneOldChecks"))

    until(lambda: runs() > stack.invoked["PruneOldChecks"], 90)


def test_the_alarms_watch_what_cloudwatch_was_told(stack: LocalStack) -> None:
    """Names and dimensions of all that these tests had happen, as they arrived; the rest would need a broken function."""
    alarms = template.load(ROOT / "infra/alarms.yaml")["Resources"]
    watched = {
        (alarm["Properties"]["MetricName"], *alarm["Properties"]["Dimensions"][0].values())
        for alarm in alarms.values()
        if alarm["Properties"].get("Namespace") == NAMESPACE
    }
    never = {(Metric.RECORDS_SKIPPED.value, "service", "proxypool")} | {
        (Metric.TASKS_FAILED.value, "task", task)
        for task in ("scrape_all", "revalidate_sweep", "prune_dead_proxies", "prune_old_checks")
    }

    def told() -> set[tuple[str, ...]]:
        pages = stack.clients("cloudwatch").get_paginator("list_metrics").paginate(Namespace=NAMESPACE)
        found = [metric for page in pages for metric in page["Metrics"]]
        return {(one["MetricName"], *one["Dimensions"][0].values()) for one in found if len(one["Dimensions"]) == 1}

    until(lambda: watched - never <= told(), 10)
