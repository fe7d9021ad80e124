"""Checks the proxies of a batch of the validate queue concurrently; partial batch response."""

from __future__ import annotations

from collections.abc import Sequence

from proxypool.aws.queues import RECHECK_GROUP, ValidateMessage
from proxypool.checks import build
from proxypool.checks.validate import Validator
from proxypool.config.settings import settings
from proxypool.tasks.handlers import Again, Invocation, QueueHandler
from proxypool.tasks.retry import Delivery, Retry


def work(validator: Validator, deliveries: Sequence[Delivery[ValidateMessage]], run: Invocation) -> Again:
    """Checks the proxies; checks that were not finished in time are retried."""
    messages = {delivery.message.proxy_id: delivery.message for delivery in deliveries}
    outcome = validator.validate(messages, seconds=run.seconds_left())
    run.counts.update({f"count_{name}": number for name, number in outcome.counts.items()})
    timeout = Retry(f"Pipeline timeout after {settings().check_total_seconds:g}s")
    return {delivery.message_id: timeout for delivery in deliveries if delivery.message.proxy_id in outcome.unfinished}


handler = QueueHandler(
    task="validate_proxy",
    kind=ValidateMessage,
    queue="validate",
    make=build.build_validator,
    work=work,
    facts=lambda message: {"proxy_id": message.proxy_id},
    paused_group=RECHECK_GROUP,
)
