"""fetch_page crashes at every external call, before and after its effect: the page is still stored once (I12, I13)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from botocore.client import BaseClient
from proxypool import clock
from proxypool.jobs import run as run_module
from proxypool.jobs.fetch import page as fetch_module
from proxypool.jobs.job import JobState
from proxypool_client.aio import AsyncPool

from tests.support.jobs import JobEnvironment, job_environment
from tests.support.site import Reply, Seen

MAX_CALLS = 60


class FetchCrash(BaseException):
    """The process crashed."""


class CrashPoint:
    """Raises at the k-th external call and at every later one, because a dead process does not clean up."""

    def __init__(self, crash_at: int, *, after: bool) -> None:
        self.crash_at, self.after, self.calls = crash_at, after, 0

    @property
    def has_crashed(self) -> bool:
        return self.calls >= self.crash_at

    def before_call(self) -> bool:
        """Counts a call; True if the crash follows its effect."""
        if self.has_crashed:
            raise FetchCrash
        self.calls += 1
        if self.has_crashed and not self.after:
            raise FetchCrash
        return self.has_crashed


@contextmanager
def crashing(monkeypatch: pytest.MonkeyPatch, crash_at: int, *, after: bool) -> Iterator[CrashPoint]:
    """Installs the crash point before AWS, the lease API and the target."""
    crash_point = CrashPoint(crash_at, after=after)
    with monkeypatch.context() as patch:
        call_aws, call_pool, fetch = BaseClient._make_api_call, AsyncPool.request, fetch_module.fetch

        def aws(client: Any, *args: Any, **named: Any) -> Any:
            last = crash_point.before_call()
            answer = call_aws(client, *args, **named)
            if last:
                raise FetchCrash
            return answer

        def awaited(call: Callable[..., Any]) -> Callable[..., Any]:
            async def wrapped(*args: Any, **named: Any) -> Any:
                last = crash_point.before_call()
                answer = await call(*args, **named)
                if last:
                    raise FetchCrash
                return answer

            return wrapped

        patch.setattr(BaseClient, "_make_api_call", aws)
        patch.setattr(AsyncPool, "request", awaited(call_pool))
        patch.setattr(run_module, "fetch", awaited(fetch))
        yield crash_point


def login(_: Seen) -> Reply:
    """A page that sets a cookie."""
    return 200, {"content-type": "text/html", "set-cookie": "sid=1; Path=/"}, b"<h1>in</h1>"


def work_later(world: JobEnvironment, job_id: str) -> None:
    """Handles the redelivered message after the deadline of the first run."""
    runtime = world.runtime
    late = replace(runtime, worker=replace(runtime.worker, now=lambda: clock.now() + timedelta(hours=1)))
    asyncio.run(late.work([f"ann/{job_id}"], seconds=60))


@pytest.mark.parametrize("named", [True, False], ids=["with a session", "without one"])
@pytest.mark.parametrize("after", [False, True], ids=["before its effect", "after its effect"])
def test_a_page_is_stored_once_after_a_crash_at_any_call(
    valkey_url: str, aws_endpoint: str, monkeypatch: pytest.MonkeyPatch, after: bool, named: bool
) -> None:
    """I12, I13, input 83: every k until a run completes."""
    with job_environment(valkey_url, login, exits=40) as world:
        for crash_at in range(1, MAX_CALLS):
            session = {"session_id": f"s{crash_at}"} if named else {}
            job_id = world.submit(f"/{crash_at}", allow_plaintext_secrets=True, **session)
            with crashing(monkeypatch, crash_at, after=after) as crash_point, suppress(FetchCrash):
                world.work(job_id)
            settled = world.job(job_id)
            work_later(world, job_id)

            job = world.job(job_id)
            assert (job.state, job.processed, job.replays) == (JobState.DONE, True, 0), crash_at
            assert world.result(job_id)["data"] == {"text": "<h1>in</h1>"}
            assert job.runs <= 2
            if settled.state is JobState.DONE:  # finished before the crash: not run again
                assert job.runs == settled.runs
            if not crash_point.has_crashed:
                break
        assert not crash_point.has_crashed
        assert crash_at > (8 if named else 6)
