"""Schedules and metrics that take up to a minute: in the last file, so that the minute has passed."""

from __future__ import annotations

import pytest
from proxypool.local.emulation import template
from proxypool.telemetry import NAMESPACE, Metric

from tests.support.servers import ROOT
from tests.support.stack import LocalStack, wait_until

pytestmark = [pytest.mark.xdist_group("stack"), pytest.mark.timeout(300)]


def test_a_schedule_fires(stack: LocalStack) -> None:
    """There are more runs of prune_old_checks than these tests invoked: EventBridge Scheduler started them."""

    def runs() -> int:
        return sum(line.get("message") == "prune_old_checks done" for line in stack.log("PruneOldChecks"))

    wait_until(lambda: runs() > stack.invoked["PruneOldChecks"])


def test_the_alarms_watch_metrics_that_cloudwatch_received(stack: LocalStack) -> None:
    """By name and dimension, from successful runs; test_alarms.py checks those of failures."""
    alarms = template.load(ROOT / "infra/monitoring.yaml")["Resources"].values()
    pool_alarms = [alarm["Properties"] for alarm in alarms if alarm["Properties"].get("Namespace") == NAMESPACE]
    failures = {Metric.TASKS_FAILED, Metric.RECORDS_SKIPPED, Metric.JUDGE_DOWN, Metric.SCORES_FROZEN, Metric.SOURCES_SUSPECT,
                Metric.SOURCES_STALE, Metric.SETTINGS_IGNORED}  # fmt: skip
    watched = {
        (one["MetricName"], *one["Dimensions"][0].values()) for one in pool_alarms if one["MetricName"] not in failures
    }
    for function in ("ScrapeAll", "RevalidateSweep", "ExpireLeases"):
        stack.invoke(function)

    def received() -> set[tuple[str, ...]]:
        pages = stack.clients("cloudwatch").get_paginator("list_metrics").paginate(Namespace=NAMESPACE)
        metrics = [metric for page in pages for metric in page["Metrics"]]
        return {(one["MetricName"], *one["Dimensions"][0].values()) for one in metrics if len(one["Dimensions"]) == 1}

    wait_until(lambda: watched <= received())
