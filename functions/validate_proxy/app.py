"""A batch of the validate queue: every proxy in it is checked at once. Fails message by message."""

from __future__ import annotations

from functools import cache
from typing import Any

from proxypool import queues, state, tasks
from proxypool.checks.batch import BatchResult
from proxypool.checks.table import ChecksTable
from proxypool.checks.validate import Validator
from proxypool.errors import MessageError
from proxypool.proxies.table import ProxyTable
from proxypool.queues import ValidateMessage
from proxypool.settings import settings
from proxypool.state import State

TASK = "validate_proxy"


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """The messages that failed, each with its retry arranged; raises KeyError where the event is no batch."""
    failed: list[str] = []
    readable: list[tuple[dict[str, Any], ValidateMessage]] = []
    for record in event["Records"]:
        try:
            readable.append((record, queues.decode(record["body"], ValidateMessage)))
        except MessageError as error:
            _again(record, error.reason, retries=0)
            failed.append(record["messageId"])
    if readable:
        failed += _validate(readable, context)
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in failed]}


def _validate(readable: list[tuple[dict[str, Any], ValidateMessage]], context: Any) -> list[str]:
    """The ids of the messages that must come again."""
    this = validator()
    messages = {message.proxy_id: message for _, message in readable}
    if state.is_paused(this.state):  # a failure would use up the messages' deliveries: they are put back instead
        url = this.settings.need("validate_queue_url")
        queues.send(url, messages.values(), group=queues.RECHECK_GROUP, delay_seconds=queues.MAX_DELAY_SECONDS)
        return []
    try:
        outcome = _run(this, messages, context)
    except Exception as error:
        reason, lost = type(error).__name__, readable
    else:
        reason = f"Pipeline timeout after {settings().check_total_seconds:g}s"
        lost = [pair for pair in readable if pair[1].proxy_id in outcome.unfinished]
    for record, message in lost:
        _again(record, reason, proxy_id=message.proxy_id)
    return [record["messageId"] for record, _ in lost]


def _run(this: Validator, messages: dict[str, ValidateMessage], context: Any) -> BatchResult:
    run_id, ttl = context.aws_request_id, this.settings.result_ttl_seconds
    with tasks.run(TASK, run_id=run_id, state=this.state, result_ttl_seconds=ttl, is_queue_fed=True) as run:
        outcome = this.validate(messages, seconds=context.get_remaining_time_in_millis() / 1000)
        run.counts.update({f"count_{name}": number for name, number in outcome.counts.items()})
        return outcome


def _again(record: dict[str, Any], reason: str, *, retries: int | None = None, **facts: Any) -> None:
    known = settings()
    tasks.retry_later(
        record,
        queue_url=known.need("validate_queue_url"),
        base_seconds=known.validate_retry_seconds,
        retries=known.validate_retries if retries is None else retries,
        reason=reason,
        state=validator().state,
        task=TASK,
        **facts,
    )


@cache
def validator() -> Validator:
    """The one of this process."""
    known = settings()
    return Validator(
        ProxyTable(known.need("proxies_table")),
        ChecksTable(known.need("checks_table")),
        State(known.need("state_table")),
        known,
    )
