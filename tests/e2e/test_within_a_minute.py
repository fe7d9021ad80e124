"""What comes by itself within a minute: in the last file, so that the minute has passed while the others ran."""

from __future__ import annotations

import pytest
from proxypool.local.emulation import template
from proxypool.telemetry import NAMESPACE, Metric

from tests.support.servers import ROOT
from tests.support.stack import LocalStack, until

pytestmark = [pytest.mark.xdist_group("stack"), pytest.mark.timeout(300)]


def test_a_schedule_fires(stack: LocalStack) -> None:
    """More runs of prune_old_checks than these tests asked for: EventBridge Scheduler started them."""

    def runs() -> int:
        return sum(line.get("message") == "prune_old_checks done" for line in stack.log("PruneOldChecks"))

    until(lambda: runs() > stack.invoked["PruneOldChecks"])


def test_the_alarms_watch_what_cloudwatch_was_told(stack: LocalStack) -> None:
    """Names and dimensions as they arrived from runs that went well; the other alarms' are read from the code."""
    alarms = template.load(ROOT / "infra/monitoring.yaml")["Resources"].values()
    ours = [alarm["Properties"] for alarm in alarms if alarm["Properties"].get("Namespace") == NAMESPACE]
    failures = {Metric.TASKS_FAILED, Metric.RECORDS_SKIPPED, Metric.JUDGE_DOWN, Metric.SCORES_FROZEN, Metric.SOURCES_SUSPECT,
                Metric.SOURCES_STALE, Metric.SETTINGS_IGNORED}  # fmt: skip
    watched = {(one["MetricName"], *one["Dimensions"][0].values()) for one in ours if one["MetricName"] not in failures}
    for function in ("ScrapeAll", "RevalidateSweep", "ExpireLeases"):
        stack.invoke(function)

    def told() -> set[tuple[str, ...]]:
        pages = stack.clients("cloudwatch").get_paginator("list_metrics").paginate(Namespace=NAMESPACE)
        found = [metric for page in pages for metric in page["Metrics"]]
        return {(one["MetricName"], *one["Dimensions"][0].values()) for one in found if len(one["Dimensions"]) == 1}

    until(lambda: watched <= told())
