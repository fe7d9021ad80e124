"""Logs and metrics: one logger, one table of metrics. The `lease` function does without, for a short cold start.

A log message is a constant phrase; its facts are fields. Metrics are written to the log in CloudWatch's embedded metric format.
"""

from __future__ import annotations

import logging
import re
from enum import StrEnum
from typing import Any, Final

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.logging.formatter import LambdaPowertoolsFormatter
from aws_lambda_powertools.metrics import MetricUnit, single_metric

NAMESPACE: Final = "ProxyPool"
MAX_FIELD_CHARS: Final = 1024  # text of a source cannot flood the log
_USERINFO: Final = re.compile(r"(?<=://)[^/@\s\"']*@")
_SECRET_FIELD: Final = re.compile(r"password|secret|token|authorization|cookie|proxy_url|(^|_)url$", re.IGNORECASE)


class Metric(StrEnum):
    """All metrics. `make configuration` writes the dashboard's widgets from this table."""

    # scrape
    SOURCES_ENQUEUED = "SourcesEnqueued"
    SOURCES_SCRAPED = "SourcesScraped"
    SOURCES_FAILED = "SourcesFailed"
    SOURCES_SUSPECT = "SourcesSuspect"
    SOURCES_STALE = "SourcesStale"
    LINES_REJECTED = "LinesRejected"
    PROXIES_DISCOVERED = "ProxiesDiscovered"
    PROXIES_UPDATED = "ProxiesUpdated"
    PROXIES_CAPPED = "ProxiesCapped"
    SSRF_BLOCKED = "SsrfBlocked"
    # sweep and validate
    PROXIES_ENQUEUED = "ProxiesEnqueued"
    PROXIES_OVERDUE = "ProxiesOverdue"
    CHECKS_PASSED = "ChecksPassed"
    CHECKS_FAILED = "ChecksFailed"
    CHECKS_INCONCLUSIVE = "ChecksInconclusive"
    CHECKS_SUPERSEDED = "ChecksSuperseded"
    JUDGE_DOWN = "JudgeDown"
    SCORES_FROZEN = "ScoresFrozen"
    # retention
    PROXIES_PRUNED = "ProxiesPruned"
    CHECKS_PRUNED = "ChecksPruned"
    # index, leases
    PROXIES_INDEXED = "ProxiesIndexed"
    RECORDS_SKIPPED = "RecordsSkipped"
    INDEX_LAG = "IndexLag"
    LEASES_GRANTED = "LeasesGranted"
    LEASES_RENEWED = "LeasesRenewed"
    LEASES_RELEASED = "LeasesReleased"
    LEASES_EXPIRED = "LeasesExpired"
    LEASES_REFUSED = "LeasesRefused"
    LEASES_OPEN = "LeasesOpen"
    PROXIES_READY = "ProxiesReady"
    POOL_LOW = "PoolLow"
    JOURNAL_LENGTH = "JournalLength"
    JOURNAL_AGE = "JournalAge"
    # jobs
    JOBS_DONE = "JobsDone"
    JOBS_FAILED = "JobsFailed"
    JOBS_BLOCKED = "JobsBlocked"
    JOBS_REQUEUED = "JobsRequeued"
    JOB_BYTES = "JobBytes"
    COOKIES_DROPPED = "CookiesDropped"
    # any function
    SETTINGS_IGNORED = "SettingsIgnored"
    # any task
    TASKS_FAILED = "TasksFailed"
    TASK_DURATION = "TaskDuration"


NON_COUNT_UNITS: Final[dict[Metric, MetricUnit]] = {
    Metric.TASK_DURATION: MetricUnit.Milliseconds,
    Metric.INDEX_LAG: MetricUnit.Milliseconds,
    Metric.JOURNAL_AGE: MetricUnit.Seconds,
    Metric.JOB_BYTES: MetricUnit.Bytes,
}
"""The unit of each metric that is not a count."""

GAUGES: Final = frozenset(
    {
        Metric.PROXIES_OVERDUE,
        Metric.INDEX_LAG,
        Metric.LEASES_OPEN,
        Metric.PROXIES_READY,
        Metric.POOL_LOW,
        Metric.JOURNAL_LENGTH,
        Metric.JOURNAL_AGE,
        Metric.TASK_DURATION,
    }
)
"""Metrics of which the dashboard shows the maximum instead of the sum."""

metrics = Metrics(namespace=NAMESPACE, service="proxypool")


class _Masking(LambdaPowertoolsFormatter):
    """Structured JSON with credentials masked and long texts cut."""

    def serialize(self, log: Any) -> str:
        return super().serialize({key: _masked(str(key), value) for key, value in log.items()})


log = Logger(service="proxypool", logger_formatter=_Masking(use_rfc3339=True, utc=True))
for noisy in ("httpx", "httpcore", "botocore", "urllib3"):  # httpx logs every URL at INFO, passwords included
    logging.getLogger(noisy).setLevel(logging.WARNING)


def count(metric: Metric, value: float = 1) -> None:
    """Adds to a metric of this invocation; `flush` writes it at the end of the task."""
    metrics.add_metric(name=metric, unit=NON_COUNT_UNITS.get(metric, MetricUnit.Count), value=value)


def count_by(metric: Metric, value: float, dimension: str, name: str) -> None:
    """Writes a metric with one dimension from a closed set, e.g. reason=pool_empty; never an id, a URL or an owner."""
    with single_metric(
        name=metric, unit=NON_COUNT_UNITS.get(metric, MetricUnit.Count), value=value, namespace=NAMESPACE
    ) as one:
        one.add_dimension(name=dimension, value=name)


def flush() -> None:
    """Writes the metrics of this invocation, and resets them."""
    if metrics.metric_set:
        metrics.flush_metrics()
    metrics.clear_metrics()


def masked(text: str) -> str:
    """The text without credentials in URLs, truncated to 1,024 characters."""
    return _USERINFO.sub("***@", text)[:MAX_FIELD_CHARS]


def _masked(key: str, value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _masked(str(name), item) for name, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):  # a Proxy: its str masks the password
        return masked(str(value))
    if isinstance(value, list | tuple):
        return [_masked(key, item) for item in value]
    if isinstance(value, str):
        if _SECRET_FIELD.search(key) and not key.endswith(("queue_url", "_arn")):
            return masked(value) if key.endswith("url") else "***"
        return masked(value)
    return value
