"""Handler classes on queues of the emulated AWS: the effect of each result of `work` on its message."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.client import BaseClient
from proxypool.aws import state
from proxypool.aws.queues import FetchMessage, encode
from proxypool.aws.state import SETTINGS, StateTable
from proxypool.config.settings import settings
from proxypool.errors import Unavailable
from proxypool.tasks.handlers import Again, Invocation, QueueHandler, ScheduledHandler
from proxypool.tasks.retry import Delivery, Hold, Retry, reason_name
from proxypool.tasks.runs import last_name, result_name
from pynamodb.exceptions import PutError

from tests.support.deployment import CONTEXT, Deployment

pytestmark = pytest.mark.xdist_group("samples")

Work = Callable[[str, Sequence[Delivery[FetchMessage]], Invocation], Again]


@pytest.fixture
def visibilities(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """The visibility timeouts that were set, in seconds, by receipt handle."""
    timeouts: dict[str, int] = {}
    call = BaseClient._make_api_call

    def recorded(client: Any, operation: str, arguments: dict[str, Any]) -> Any:
        if operation == "ChangeMessageVisibility":
            timeouts[arguments["ReceiptHandle"]] = arguments["VisibilityTimeout"]
        return call(client, operation, arguments)

    monkeypatch.setattr(BaseClient, "_make_api_call", recorded)
    return timeouts


def record(name: str, attempt: int = 1, body: str | None = None) -> dict[str, Any]:
    """A message of the fetch queue."""
    return {
        "messageId": name, "receiptHandle": name, "body": encode(FetchMessage(job_key=f"ann/{name}")) if body is None else body,
        "attributes": {"ApproximateReceiveCount": str(attempt)},
    }  # fmt: skip


def a_handler(work: Work, **changes: Any) -> QueueHandler[str, FetchMessage]:
    """A handler of the fetch queue (two retries, the first after 30 s)."""
    parts: dict[str, Any] = {"paused_group": "jobs"} | changes
    return QueueHandler(
        task="fetch_page", kind=FetchMessage, queue="fetch", make=lambda _: "made", work=work,
        facts=lambda message: {"job": message.job_key}, **parts,
    )  # fmt: skip


def failed(answer: dict[str, Any]) -> list[str]:
    return [item["itemIdentifier"] for item in answer["batchItemFailures"]]


def test_each_message_of_a_batch_has_its_own_result(deployment: Deployment, visibilities: dict[str, int]) -> None:
    """I14: done, failed, held and invalid messages in one batch; the response is in the order of the batch."""
    handled: list[str] = []

    def work(made: str, deliveries: Sequence[Delivery[FetchMessage]], run: Invocation) -> Again:
        handled.extend(delivery.message.job_key for delivery in deliveries)
        run.counts["count_done"] = 1
        patient = Retry("asked to wait", min_seconds=100)
        return {"slow": Retry("slow"), "held": Hold(7.4), "patient": patient, "long": Hold(50_000)}

    records = [
        record("bad", body="{"),
        record("done"),
        record("slow", 2),
        record("held"),
        record("patient", 2),
        record("long"),
    ]
    answer = a_handler(work)({"Records": records}, CONTEXT)

    assert handled == ["ann/done", "ann/slow", "ann/held", "ann/patient", "ann/long"]
    assert failed(answer) == ["bad", "slow", "held", "patient", "long"]
    assert visibilities == {"bad": 0, "slow": 60, "held": 7, "patient": 200, "long": 43_200 - 900}
    table = StateTable(deployment.settings.state_table)
    assert table.get(reason_name("bad"))["reason"] == "not JSON"
    assert table.get(reason_name("slow"))["attempt"] == 2
    assert table.get(reason_name("held")) is None
    assert table.get(reason_name("done")) is None
    assert table.get(result_name("run-1"))["counts"] == {"count_done": 1}


@pytest.mark.parametrize("one_run_each", [True, False])
def test_a_reason_that_cannot_be_stored_changes_no_answer(
    deployment: Deployment, visibilities: dict[str, int], monkeypatch: pytest.MonkeyPatch, one_run_each: bool
) -> None:
    """DynamoDB may be the reason why it failed. What is done stays done, what comes behind runs, and the delay is set."""
    ran: list[str] = []
    put = StateTable.put

    def refusing(table: StateTable, name: str, value: Any, *, ttl_seconds: int | None = None) -> None:
        if name.startswith(reason_name("")):
            raise PutError("throttled")
        put(table, name, value, ttl_seconds=ttl_seconds)

    def work(made: str, deliveries: Sequence[Delivery[FetchMessage]], run: Invocation) -> Again:
        ran.extend(delivery.message_id for delivery in deliveries)
        return {"slow": Retry("slow")} if "slow" in {delivery.message_id for delivery in deliveries} else {}

    monkeypatch.setattr(StateTable, "put", refusing)
    records = [record("bad", body="{"), record("done"), record("slow"), record("last")]
    answer = a_handler(work, one_run_each=one_run_each)({"Records": records}, CONTEXT)

    assert (failed(answer), ran) == (["bad", "slow"], ["done", "slow", "last"])
    assert visibilities == {"bad": 0, "slow": 30}


def test_no_wait_is_longer_than_sqs_allows(deployment: Deployment, visibilities: dict[str, int]) -> None:
    """12 hours from the receipt: a longer visibility is refused, and the message would come after the queue's own time-out."""
    answer = a_handler(lambda *_: {"m": Retry("pause", min_seconds=86_400)})({"Records": [record("m", 2)]}, CONTEXT)

    assert failed(answer) == ["m"]
    assert visibilities["m"] == 43_200 - 900


def test_the_last_attempt_is_known_and_comes_back_at_once(deployment: Deployment, visibilities: dict[str, int]) -> None:
    """Then the redrive policy moves it to the dead-letter queue."""
    last: dict[int, bool] = {}

    def work(made: str, deliveries: Sequence[Delivery[FetchMessage]], run: Invocation) -> Again:
        (delivery,) = deliveries
        last[delivery.attempt] = delivery.is_last
        return {delivery.message_id: Retry("no")}

    waits = []
    for attempt in (1, 2, 3):
        assert failed(a_handler(work)({"Records": [record("m", attempt)]}, CONTEXT)) == ["m"]
        waits.append(visibilities["m"])

    assert last == {1: False, 2: False, 3: True}
    assert waits == [30, 60, 0]


def test_messages_with_one_run_each_fail_alone(deployment: Deployment, visibilities: dict[str, int]) -> None:
    """An error fails one message, and is stored as its reason."""

    def work(made: str, deliveries: Sequence[Delivery[FetchMessage]], run: Invocation) -> Again:
        (delivery,) = deliveries
        if delivery.message_id == "broken":
            raise Unavailable
        return {}

    answer = a_handler(work, one_run_each=True)({"Records": [record("a"), record("broken"), record("b")]}, CONTEXT)

    assert failed(answer) == ["broken"]
    assert StateTable(deployment.settings.state_table).get(reason_name("broken"))["reason"] == "Unavailable"
    assert StateTable(deployment.settings.state_table).get(last_name("fetch_page"))["counts"] == {"job": "ann/b"}


def test_a_paused_pool_requeues_each_message_once_and_runs_nothing(
    deployment: Deployment, visibilities: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Input 91: receive counts are not used up; an invalid message still fails."""
    table = StateTable(deployment.settings.state_table)
    table.put(SETTINGS, {"paused": True})
    monkeypatch.setattr(state, "_settings_cache", {})
    monkeypatch.setattr("proxypool.aws.queues.MAX_DELAY_SECONDS", 0)
    ran: list[str] = []

    def work(made: str, deliveries: Sequence[Delivery[FetchMessage]], run: Invocation) -> Again:
        ran.append(made)
        return {}

    try:
        answer = a_handler(work)({"Records": [record("bad", body="[]"), record("m"), record("m")]}, CONTEXT)
    finally:
        table.put(SETTINGS, {"paused": False})
        state._settings_cache.clear()

    assert (failed(answer), ran) == (["bad"], [])
    assert [message["job_key"] for message in deployment.sent(deployment.settings.fetch_queue_url)] == ["ann/m"]


def test_work_gets_the_time_left_without_the_reserve_and_its_dependencies(deployment: Deployment) -> None:
    made: list[str] = []
    seen: list[tuple[str, float]] = []

    def make(config: Any) -> str:
        made.append(config.fetch_queue_url)
        return "made"

    def work(dependency: str, run: Invocation) -> dict[str, int]:
        seen.append((dependency, run.seconds_left()))
        return {"count": len(seen)}

    handler = ScheduledHandler(task="scrape_all", make=make, work=work, reserve_seconds=20)
    late = SimpleNamespace(aws_request_id="run-1", get_remaining_time_in_millis=lambda: 5_000)

    assert [handler({}, CONTEXT), handler({}, late)] == [{"count": 1}, {"count": 2}]
    assert made == [settings().fetch_queue_url]
    assert seen == [("made", 40.0), ("made", 0.0)]


def test_the_result_of_a_failed_scheduled_run_is_stored_and_its_error_raised(deployment: Deployment) -> None:
    """Lambda retries and alarms need the error; the counts before it are stored."""

    def work(_: str, run: Invocation) -> dict[str, int]:
        run.counts["count"] = 3
        raise Unavailable("no Redis")

    with pytest.raises(Unavailable):
        ScheduledHandler(task="scrape_all", make=lambda _: "made", work=work)({}, CONTEXT)

    result = StateTable(deployment.settings.state_table).get(result_name("run-1"))
    assert (result["status"], result["counts"], result["error"]) == ("failed", {"count": 3}, "Unavailable: no Redis")
