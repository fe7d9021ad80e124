"""The seven tasks on a local stack: invoked, in the log, in the results, in the stats.

The outputs that the worker and task reference specifies, and their tests:

    INFO  <task> at start and completion, counts, duration_ms    test_each_scheduled_function_…, test_each_queue_fed_function_…
    INFO  scrape_source source_id count_new count_updated        test_each_queue_fed_function_logs_its_runs
    WARN  scrape_source source_id error retrying attempt         test_failures: test_an_unreadable_source_is_retried_…
    ERROR after the last attempt                                 the same; expire_leases: test_a_failed_run_is_logged_…
    ERROR validate_proxy proxy_id error="Pipeline timeout …"     integration/test_samples
    proxy.new_batch, proxy.pool_low, source.stale                test_events
    source.failed                                                test_failures: test_an_unreadable_source_is_retried_…
    a result stored for 3,600 s, read by its id                  here; its end: integration/test_kill_switch
    last_scrape_at, last_validation_at                           test_the_stats_have_the_times_of_the_last_scrape_and_check
    the schedules                                                test_within_a_minute, unit/test_template
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.stack import LocalStack, wait_until

pytestmark = [pytest.mark.xdist_group("stack"), pytest.mark.timeout(300)]

SCHEDULED = {
    "ScrapeAll": ("scrape_all", {"count_sources", "count_enqueued", "count_stale"}),
    "RevalidateSweep": ("revalidate_sweep", {"count", "overdue", "backlog"}),
    "PruneDeadProxies": ("prune_dead_proxies", {"count"}),
    "PruneOldChecks": ("prune_old_checks", {"count"}),
    "ExpireLeases": ("expire_leases", {"count_expired", "count_journal", "ready", "leases_open"}),
}


def lines(stack: LocalStack, function: str, message: str) -> list[dict[str, Any]]:
    return [line for line in stack.log(function) if line.get("message") == message]


@pytest.mark.parametrize("function", SCHEDULED)
def test_each_scheduled_function_runs_and_its_run_is_stored_and_logged(stack: LocalStack, function: str) -> None:
    """A line at start and end, counts and duration_ms as fields, the result read by its id."""
    task, counts = SCHEDULED[function]

    stack.invoke(function)

    run = stack.call("GET", "/stats/pool")[1]["tasks"][task]
    assert (run["status"], run["task"]) == ("done", task)
    assert counts <= run["counts"].keys()
    assert stack.call("GET", f"/tasks/{run['id']}") == (200, run)
    done = next(line for line in lines(stack, function, f"{task} done") if line["run_id"] == run["id"])
    assert (done["level"], done["duration_ms"]) == ("INFO", run["duration_ms"])
    assert {name: done[name] for name in counts} == {name: run["counts"][name] for name in counts}
    assert run["id"] in {line["run_id"] for line in lines(stack, function, f"{task} started")}


@pytest.mark.parametrize(
    ("function", "task", "counts"),
    [
        ("ScrapeSource", "scrape_source", {"source_id", "count_new", "count_updated"}),
        ("ValidateProxy", "validate_proxy", {"count_passed", "count_failed"}),
    ],
)
def test_each_queue_fed_function_logs_its_runs(stack: LocalStack, function: str, task: str, counts: set[str]) -> None:
    """`scrape_source source_id=… count_new=… count_updated=… duration_ms=…`, as fields."""
    done = lines(stack, function, f"{task} done")

    assert all(line["level"] == "INFO" and line["duration_ms"] >= 0 for line in done)
    assert any(counts <= line.keys() for line in done)
    assert len(lines(stack, function, f"{task} started")) >= len(done) > 0


def test_the_stats_have_the_times_of_the_last_scrape_and_check(stack: LocalStack) -> None:
    """last_scrape_at and last_validation_at are the starts of the last runs."""

    def counted() -> Any:
        stack.invoke("ExpireLeases")
        found = stack.call("GET", "/stats/pool")[1]
        return found if (found["proxies"] or {}).get("active") == stack.statuses()["active"] else None

    stats = wait_until(counted)

    assert stats["last_scrape_at"] == stats["tasks"]["scrape_source"]["started_at"]
    assert stats["last_validation_at"] == stats["tasks"]["validate_proxy"]["started_at"]
    assert stats["overdue"] == 0  # none has been due for half an hour
