"""fetch_page killed at every call to the outside, before and after its effect: the page is stored once all the same (I12, I13)."""

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

MOST_CALLS = 60


class Killed(BaseException):
    """The process is gone."""


class Killer:
    """Raises at the k-th call to the outside and at every one behind it: what is dead does not clean up."""

    def __init__(self, at: int, *, after: bool) -> None:
        self.at, self.after, self.calls = at, after, 0

    @property
    def struck(self) -> bool:
        return self.calls >= self.at

    def before_call(self) -> bool:
        """Counts a call; True if it is the one that still takes effect."""
        if self.struck:
            raise Killed
        self.calls += 1
        if self.struck and not self.after:
            raise Killed
        return self.struck


@contextmanager
def killing(monkeypatch: pytest.MonkeyPatch, at: int, *, after: bool) -> Iterator[Killer]:
    """Puts the killer before AWS, the lease API and the target."""
    killer = Killer(at, after=after)
    with monkeypatch.context() as patch:
        call_aws, call_pool, fetch = BaseClient._make_api_call, AsyncPool.request, fetch_module.fetch

        def aws(client: Any, *args: Any, **named: Any) -> Any:
            last = killer.before_call()
            answer = call_aws(client, *args, **named)
            if last:
                raise Killed
            return answer

        def awaited(call: Callable[..., Any]) -> Callable[..., Any]:
            async def wrapped(*args: Any, **named: Any) -> Any:
                last = killer.before_call()
                answer = await call(*args, **named)
                if last:
                    raise Killed
                return answer

            return wrapped

        patch.setattr(BaseClient, "_make_api_call", aws)
        patch.setattr(AsyncPool, "request", awaited(call_pool))
        patch.setattr(run_module, "fetch", awaited(fetch))
        yield killer


def login(_: Seen) -> Reply:
    """A page that sets a cookie."""
    return 200, {"content-type": "text/html", "set-cookie": "sid=1; Path=/"}, b"<h1>in</h1>"


def work_later(world: JobEnvironment, job_id: str) -> None:
    """The message comes again when the first run is taken for dead."""
    runtime = world.runtime
    late = replace(runtime, worker=replace(runtime.worker, now=lambda: clock.now() + timedelta(hours=1)))
    asyncio.run(late.work([f"ann/{job_id}"], seconds=60))


@pytest.mark.parametrize("named", [True, False], ids=["with a session", "without one"])
@pytest.mark.parametrize("after", [False, True], ids=["before its effect", "after its effect"])
def test_killed_anywhere_the_page_is_stored_once(
    valkey_url: str, aws_endpoint: str, monkeypatch: pytest.MonkeyPatch, after: bool, named: bool
) -> None:
    """I12, I13, input 83: every k until a run gets through."""
    with job_environment(valkey_url, login, exits=40) as world:
        for at in range(1, MOST_CALLS):
            session = {"session_id": f"s{at}"} if named else {}
            job_id = world.submit(f"/{at}", allow_plaintext_secrets=True, **session)
            with killing(monkeypatch, at, after=after) as killer, suppress(Killed):
                world.work(job_id)
            settled = world.job(job_id)
            work_later(world, job_id)

            job = world.job(job_id)
            assert (job.state, job.processed, job.replays) == (JobState.DONE, True, 0), at
            assert world.result(job_id)["data"] == {"text": "<h1>in</h1>"}
            assert job.runs <= 2
            if settled.state is JobState.DONE:  # ended before the kill: nothing ran again
                assert job.runs == settled.runs
            if not killer.struck:
                break
        assert not killer.struck
        assert at > (8 if named else 6)
