"""GET /stats/pool: assembled from stored values."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from proxypool import clock
from proxypool.aws.state import GAUGES
from proxypool.jobs.store import usage
from proxypool.proxies import census
from proxypool.proxies.proxy import Protocol, Proxy
from proxypool.tasks import runs

from tests.support.admin import Admin
from tests.support.clock import Clock


def test_stats_are_read_and_not_counted(admin: Admin) -> None:
    """Two reads, independent of the size of the tables."""
    first, second, third = admin.add(*(Proxy(Protocol.HTTP, f"8.8.8.{number}", 80) for number in (1, 2, 3)))
    admin.check(first)
    admin("DELETE /proxies/{id}", name=third)
    census.refresh_sizes(admin.proxies, admin.state, now=clock.now() + census.OVERDUE_AFTER + timedelta(seconds=1))
    admin.state.put(GAUGES, {"at": clock.iso(clock.now()), "ready": 7, "leases_open": 2})
    admin.calls.clear()

    _, stats = admin("GET /stats/pool")

    assert stats["proxies"] == {"unchecked": 1, "active": 1, "dead": 0}
    assert (stats["overdue"], stats["ready"], stats["leases_open"]) == (1, 7, 2)
    assert admin.calls == {("StateTable", "dynamodb:BatchGetItem"), ("SourcesTable", "dynamodb:Scan")}
    assert second


@pytest.mark.parametrize(
    ("late", "overdue"),
    [
        (timedelta(0), 0),  # due in this second
        (census.OVERDUE_AFTER - timedelta(seconds=1), 0),  # the next sweep enqueues it
        (census.OVERDUE_AFTER, 1),
    ],
)
def test_a_proxy_is_overdue_after_two_sweeps(admin: Admin, clock: Clock, late: timedelta, overdue: int) -> None:
    due_at = clock.stop()
    (proxy_id,) = admin.add(Proxy(Protocol.HTTP, "8.8.8.1", 80))
    admin.check(proxy_id)

    census.refresh_sizes(admin.proxies, admin.state, now=due_at + late)

    assert admin("GET /stats/pool")[1]["overdue"] == overdue


def test_stats_of_a_new_pool_are_null_not_zero(admin: Admin) -> None:
    _, stats = admin("GET /stats/pool")

    assert (stats["proxies"], stats["ready"], stats["last_scrape_at"]) == (None, None, None)
    assert set(stats["tasks"].values()) == {None}


def test_bytes_are_reported_by_source_for_today_and_this_month(admin: Admin, clock: Clock) -> None:
    """Providers bill by the gigabyte."""
    now = datetime(2028, 2, 29, 23, 59, 59, tzinfo=UTC)
    clock.set(now)
    proxy_ids = admin.add(Proxy(Protocol.HTTP, "8.8.8.1", 80), Proxy(Protocol.HTTP, "8.8.8.2", 80))
    source_ids = [admin("POST /sources", {"id": name, "inline": "8.8.8.8:80"})[1]["id"] for name in ("list", "other")]

    usage.save({proxy_ids[0]: 1_000, proxy_ids[1]: 500, "f" * 20: 9}, admin.proxies, admin.state, now=now)
    usage.save({proxy_ids[0]: 200}, admin.proxies, admin.state, now=now - timedelta(days=1))

    assert usage.read(source_ids, admin.state, now=now) == {"list": (1_500, 1_700), "other": (0, 0)}
    stats = admin("GET /stats/pool")[1]["sources"]["list"]
    assert (stats["bytes_today"], stats["bytes_this_month"]) == (1_500, 1_700)
    clock.move(seconds=1)
    stats = admin("GET /stats/pool")[1]["sources"]["list"]
    assert (stats["bytes_today"], stats["bytes_this_month"]) == (0, 0)


def test_the_last_scrape_is_the_last_successful_one_and_the_last_run_is_shown(admin: Admin) -> None:
    def scrape(run_id: str, **counts: Any) -> dict[str, Any]:
        with runs.record_run("scrape_source", run_id=run_id, state=admin.state, result_ttl_seconds=60) as run:
            run.counts |= counts
        stats: dict[str, Any] = admin("GET /stats/pool")[1]
        return stats

    good = scrape("a", count_new=3)
    failed = scrape("b", error="HTTP 503")
    paused = scrape("c", skipped="paused")
    unchanged = scrape("d", skipped="not_modified")

    assert good["last_scrape_at"] == good["tasks"]["scrape_source"]["started_at"]
    assert failed["last_scrape_at"] == paused["last_scrape_at"] == good["last_scrape_at"]
    assert failed["tasks"]["scrape_source"]["error"] == "HTTP 503"
    assert unchanged["last_scrape_at"] == unchanged["tasks"]["scrape_source"]["started_at"]


def test_a_failed_run_is_shown_with_its_error(admin: Admin) -> None:
    with (
        pytest.raises(ValueError),
        runs.record_run("validate_proxy", run_id="x", state=admin.state, result_ttl_seconds=60),
    ):
        raise ValueError("it broke")

    _, stats = admin("GET /stats/pool")

    run = stats["tasks"]["validate_proxy"]
    assert (run["status"], run["error"]) == ("failed", "ValueError: it broke")
    assert stats["last_validation_at"] is None
