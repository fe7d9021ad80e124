"""The function expire_leases as the scheduler calls it: its log lines, its stored result, its retry."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from types import ModuleType

import pytest
from proxypool.aws.state import SIZES, StateTable
from proxypool.config.settings import Settings
from proxypool.errors import Unavailable
from proxypool.leases.expire import Bridge
from proxypool.tasks import handlers
from proxypool.tasks.runs import last_name, result_name

from tests.support.deployment import load
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
    """A Lambda context with a unique id."""
    return Context(uuid.uuid4().hex)


def serve(monkeypatch: pytest.MonkeyPatch, redis_url: str) -> tuple[ModuleType, StateTable]:
    """The function's module, fresh, and the state of its tables; it uses this Redis."""
    name = f"t{uuid.uuid4().hex[:10]}"
    tables = create_tables(name)
    settings = Settings(
        redis_url=redis_url, pool=name, leases_table=tables["LeasesTable"], proxies_table=tables["ProxiesTable"],
        state_table=tables["StateTable"], expire_retry_seconds=0,
    )  # fmt: skip
    app = load("expire_leases")
    monkeypatch.setattr(app, "settings", lambda: settings)
    monkeypatch.setattr(handlers, "settings", lambda: settings)
    return app, StateTable(settings.state_table)


def test_a_run_stores_its_result(valkey_url: str, context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    """The result is read by the run's id, and as the task's last."""
    app, state = serve(monkeypatch, valkey_url)

    counts = app.handler({}, context)

    kept = state.get(result_name(context.aws_request_id))
    assert (kept["status"], kept["counts"]) == ("done", counts)
    assert state.get(last_name("expire_leases"))["id"] == context.aws_request_id
    assert state.get(SIZES)["by_status"] == {"unchecked": 0, "active": 0, "dead": 0}


def test_a_run_is_retried_once_and_then_fails(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    """I21: without Redis it retries once, and the failure is stored."""
    app, state = serve(monkeypatch, f"redis://127.0.0.1:{free_port()}")
    tries, run = list[str](), Bridge.run

    def counted(bridge: Bridge, run_id: str, *, until: float) -> dict[str, int]:
        tries.append(run_id)
        return run(bridge, run_id, until=until)

    monkeypatch.setattr(Bridge, "run", counted)

    with pytest.raises(Unavailable):
        app.handler({}, context)

    kept = state.get(result_name(context.aws_request_id))
    assert tries == [context.aws_request_id] * 2
    assert kept["status"] == "failed"
    assert "NoAnswer" in kept["error"]
