"""The function expire_leases as the scheduler calls it: its log lines, its kept result, its one retry."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

import pytest
from proxypool.errors import Unavailable
from proxypool.leases.build import bridge_of
from proxypool.settings import Settings
from proxypool.state import SIZES, State
from proxypool.tasks import last_name, result_name

from functions.expire_leases import app
from tests.support.servers import create_tables, free_port


@dataclass
class Context:
    """What Lambda hands over."""

    aws_request_id: str

    def get_remaining_time_in_millis(self) -> int:
        """Five minutes."""
        return 300_000


@pytest.fixture
def context(aws_endpoint: str) -> Context:
    """A call with an id of its own."""
    return Context(uuid.uuid4().hex)


def serve(monkeypatch: pytest.MonkeyPatch, redis_url: str) -> State:
    """Leads the function to this Redis and to tables of its own."""
    name = f"t{uuid.uuid4().hex[:10]}"
    tables = create_tables(name)
    settings = Settings(
        redis_url=redis_url, pool=name, leases_table=tables["LeasesTable"], proxies_table=tables["ProxiesTable"],
        state_table=tables["StateTable"], expire_retry_seconds=0,
    )  # fmt: skip
    bridge = bridge_of(settings)
    monkeypatch.setattr(app, "settings", lambda: settings)
    monkeypatch.setattr(app, "bridge", lambda: bridge)
    return State(settings.state_table)


def test_a_run_keeps_its_result(valkey_url: str, context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    """The result is read by the run's id, and as the task's last."""
    state = serve(monkeypatch, valkey_url)

    counts = app.handler({}, context)

    kept = state.get(result_name(context.aws_request_id))
    assert (kept["status"], kept["counts"]) == ("done", counts)
    assert state.get(last_name("expire_leases"))["id"] == context.aws_request_id
    assert state.get(SIZES)["by_status"] == {"unchecked": 0, "active": 0, "dead": 0}


def test_a_run_is_tried_again_once_and_then_fails(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    """I21: with Redis away it tries once more, and the failure is kept."""
    state = serve(monkeypatch, f"redis://127.0.0.1:{free_port()}")
    bridge, tries = app.bridge(), iter(range(2))
    monkeypatch.setattr(app, "bridge", lambda: (next(tries), bridge)[1])

    with pytest.raises(Unavailable):
        app.handler({}, context)

    kept = state.get(result_name(context.aws_request_id))
    assert next(tries, None) is None
    assert kept["status"] == "failed"
    assert "NoAnswer" in kept["error"]
