"""One batch of the validate queue: claims, probes the judges, checks all proxies concurrently, writes results as they
arrive.

Failures of active proxies are deferred until the batch is complete: they have no effect if most of the pool seems to fail
(see `freeze`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from proxypool import clock
from proxypool.aws import queues
from proxypool.aws.events import Event, publish
from proxypool.aws.queues import ValidateMessage
from proxypool.aws.state import StateTable, operator_settings
from proxypool.checks.batch import Batch, BatchResult
from proxypool.checks.check import Check, Reason, Verdict
from proxypool.checks.freeze import Freezer
from proxypool.checks.judge import judges
from proxypool.checks.judge.key import judge_key
from proxypool.checks.pool_low import publish_pool_low
from proxypool.checks.probe import pipeline
from proxypool.checks.probe.context import CheckContext
from proxypool.checks.rules.cadence import is_likely_slow, needs_full_check, needs_quick_recheck
from proxypool.checks.rules.status import apply_check
from proxypool.checks.rules.target import TargetRule, parse_rules
from proxypool.checks.table import ChecksTable
from proxypool.config.settings import Settings
from proxypool.network import loop
from proxypool.proxies.proxy import Status
from proxypool.proxies.record import ProxyRecord
from proxypool.proxies.table import ProxyTable
from proxypool.telemetry import Metric, count, log

RESULTS_PER_WRITE: Final = 25
WRITE_SECONDS: Final = 1.0
JUDGE_DOWN_KEY: Final = "judge_down"  # state key: one event per outage
JUDGE_DOWN_SECONDS: Final = 900
DETECTED_SOURCE_ID: Final = "detected"  # of a proxy stored under its detected protocol, if its own source is unknown

_METRICS: Final = {
    Verdict.PASSED: Metric.CHECKS_PASSED,
    Verdict.FAILED: Metric.CHECKS_FAILED,
    Verdict.INCONCLUSIVE: Metric.CHECKS_INCONCLUSIVE,
}


@dataclass(frozen=True, slots=True)
class Validator:
    """Checks batches of one deployment."""

    proxies: ProxyTable
    checks: ChecksTable
    state: StateTable
    settings: Settings
    now: Callable[[], datetime] = clock.now

    def validate(self, messages: Mapping[str, ValidateMessage], *, seconds: float) -> BatchResult:
        """Checks the proxies of these messages (by proxy id) within `seconds`.

        Proxies that cannot be claimed are skipped: the message is a duplicate or stale, or the proxy was deleted.
        Raises what AWS calls raise, after releasing the claims.
        """
        result = BatchResult()
        claimed = self._claim(messages)
        result.counts["superseded"] = len(messages) - len(claimed)
        count(Metric.CHECKS_SUPERSEDED, result.counts["superseded"])
        if claimed:
            sweep_ids = {proxy_id: message.sweep_id for proxy_id, message in messages.items()}
            batch = Batch({record.id: record for record in claimed}, sweep_ids, result)
            try:
                loop.run(self._check(batch, seconds))
            except BaseException:
                self.proxies.release_claims({record.id: record.claim for record in batch.open_claims.values()})
                raise
        return result

    def _claim(self, messages: Mapping[str, ValidateMessage]) -> list[ProxyRecord]:
        due = {proxy_id: message.next_check_at for proxy_id, message in messages.items()}
        claims = self.proxies.claim_many(due, now=self.now(), claim_seconds=self.settings.claim_seconds)
        records = self.proxies.get_many(claims)
        return [replace(records[id_], claim=claim) for id_, claim in claims.items() if id_ in records]

    async def _check(self, batch: Batch, seconds: float) -> None:
        key = judge_key(self.settings.judge_secret_arn)
        context = await judges.probe_judges(judges.build_context(self.settings, key, self._target_rules()))
        if context is None:
            self._return_unchecked(batch)
            return
        self.state.delete(JUDGE_DOWN_KEY)
        results: asyncio.Queue[Check | None] = asyncio.Queue()
        slots = asyncio.Semaphore(self.settings.check_concurrency)
        slow_first = sorted(batch.open_claims.values(), key=is_likely_slow, reverse=True)
        tasks = [asyncio.create_task(self._check_one(record, context, slots, results)) for record in slow_first]
        remaining, deadline = len(tasks), asyncio.get_running_loop().time() + seconds
        try:
            while remaining:
                async with asyncio.timeout_at(deadline):  # limits waiting for results, not writing
                    checks = await _next_page(results, remaining)
                remaining -= len(checks)
                await asyncio.to_thread(self._write, batch.add([check for check in checks if check]), batch)
        except TimeoutError:
            unchecked = len(batch.open_claims) - len(batch.deferred)
            log.error("validate_proxy failed", error="Pipeline timeout", count=unchecked)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.to_thread(self._write_deferred, batch)
        if batch.active_set_changed:
            publish_pool_low(self.state, self.settings)
        self._release_open_claims(batch)

    async def _check_one(
        self, record: ProxyRecord, context: CheckContext, slots: asyncio.Semaphore, results: asyncio.Queue[Check | None]
    ) -> None:
        targets = frozenset(rule.host for rule in context.target_rules)
        full = needs_full_check(record, every_nth=self.settings.check_tls_every, targets=targets)
        async with slots:
            try:
                is_first = record.status is Status.UNCHECKED
                results.put_nowait(
                    await pipeline.check(
                        record.proxy,
                        context,
                        now=self.now(),
                        full=full,
                        is_first=is_first,
                        allow_private=record.allow_private,
                    )
                )
            except Exception as error:  # a bug in one check must not affect the others
                log.exception("check failed", proxy_id=record.id, error=type(error).__name__)
                results.put_nowait(None)

    def _write_deferred(self, batch: Batch) -> None:
        """Writes the deferred checks: as failures, or without effect during a freeze."""
        judge_down = sum(check.reason is Reason.JUDGE_DOWN for _, _, check in batch.checks)
        if judge_down:
            self._publish_judge_down("stopped answering", judge_down)
        frozen = Freezer(self.state, self.settings).update(batch.checks, self.now())
        deferred = [replace(check, frozen=frozen) for check in batch.deferred]
        batch.result.counts["frozen"] = len(deferred) if frozen else 0
        for start in range(0, len(deferred), RESULTS_PER_WRITE):
            self._write(deferred[start : start + RESULTS_PER_WRITE], batch)

    def _write(self, checks: list[Check], batch: Batch) -> None:
        """Writes checks under their claims; those that took effect are stored, counted and, after a failure, rechecked
        soon.
        """
        before = {check.proxy_id: batch.open_claims[check.proxy_id] for check in checks}
        after = {check.proxy_id: self._apply(before[check.proxy_id], check) for check in checks}
        written = self.proxies.record_many(list(after.values()))
        self.checks.add(
            [(check, before[check.proxy_id].claim) for check in checks if check.proxy_id in written],
            ttl_days=self.settings.check_ttl_days,
        )
        for check in checks:
            del batch.open_claims[check.proxy_id]
            verdict = check.verdict.value if check.proxy_id in written else "superseded"
            batch.result.counts[verdict] += 1
            count(_METRICS[check.verdict] if check.proxy_id in written else Metric.CHECKS_SUPERSEDED)
        self._send_quick_rechecks([after[id_] for id_ in written])
        self._store_detected([(before[check.proxy_id], check) for check in checks if check.proxy_id in written])
        batch.active_set_changed |= any(_active_changed(before[id_].status, after[id_].status) for id_ in written)

    def _apply(self, record: ProxyRecord, check: Check) -> ProxyRecord:
        settings = self.settings
        return apply_check(
            record, check, active_seconds=settings.active_recheck_seconds, dead_seconds=settings.dead_recheck_seconds
        )

    def _send_quick_rechecks(self, records: list[ProxyRecord]) -> None:
        """Sends delayed messages; a lost one is replaced by the next sweep."""
        by_delay: dict[int, list[ValidateMessage]] = {}
        for record in filter(needs_quick_recheck, records):
            if record.next_check_at is None:
                continue
            message = ValidateMessage(proxy_id=record.id, next_check_at=clock.epoch(record.next_check_at))
            by_delay.setdefault(record.check.interval_seconds, []).append(message)
        for delay, messages in by_delay.items():
            self._send(messages, delay_seconds=delay)

    def _store_detected(self, checked: list[tuple[ProxyRecord, Check]]) -> None:
        """Stores a proxy that speaks another protocol than listed under that protocol, and enqueues its check."""
        for record, check in checked:
            if check.detected_protocol is None:
                continue
            new = self.proxies.upsert_many(
                [record.proxy._replace(protocol=check.detected_protocol)], source_id=min(record.sources, default=DETECTED_SOURCE_ID),
                kind=record.kind, tags=record.tags, now=self.now(),
            ).new  # fmt: skip
            self._send(
                [
                    ValidateMessage(proxy_id=added.id, next_check_at=clock.epoch(added.next_check_at))
                    for added in new
                    if added.next_check_at
                ]
            )

    def _send(self, messages: list[ValidateMessage], *, delay_seconds: int = 0) -> None:
        url = self.settings.need("validate_queue_url")
        try:
            queues.send(url, messages, group=queues.RECHECK_GROUP, delay_seconds=delay_seconds)
        except queues.SendFailed as error:
            log.warning("rechecks not sent", count=len(error.failed))

    def _target_rules(self) -> tuple[TargetRule, ...]:
        values = operator_settings(self.state).get("targets") or ()
        try:
            return parse_rules(values, allow_loopback=self.settings.allow_loopback)
        except ValueError as error:
            log.error("target rules are invalid", error=str(error))
            return ()

    def _return_unchecked(self, batch: Batch) -> None:
        """Returns all proxies, unchecked: records stay as they are and are due again, so that the next sweep retries
        them.
        """
        claimed = list(batch.open_claims.values())
        self.proxies.return_unasked(claimed, now=self.now())
        batch.open_claims.clear()
        batch.result.counts[Verdict.INCONCLUSIVE.value] += len(claimed)
        count(Metric.CHECKS_INCONCLUSIVE, len(claimed))
        self._publish_judge_down("no answer", len(claimed))

    def _publish_judge_down(self, reason: str, checks: int) -> None:
        """Logs and counts each time, publishes once per outage: a batch that finds a judge up resets the key."""
        count(Metric.JUDGE_DOWN)
        log.error("judge is down", reason=reason, count=checks)
        at = clock.iso(self.now())
        if self.state.put_if_absent(JUDGE_DOWN_KEY, at, ttl_seconds=JUDGE_DOWN_SECONDS):
            judge = self.settings.judge_url or ",".join(self.settings.judge_echo_urls)
            publish(self.settings.need("event_bus"), Event.JUDGE_DOWN, {"judge": judge, "reason": reason, "at": at})

    def _release_open_claims(self, batch: Batch) -> None:
        if batch.open_claims:
            self.proxies.release_claims({record.id: record.claim for record in batch.open_claims.values()})
            batch.result.unfinished |= set(batch.open_claims)
            batch.result.counts["unfinished"] += len(batch.open_claims)


async def _next_page(results: asyncio.Queue[Check | None], remaining: int) -> list[Check | None]:
    """Up to RESULTS_PER_WRITE results: waits without limit for the first, then WRITE_SECONDS in total for the rest."""
    page = [await results.get()]
    try:
        async with asyncio.timeout(WRITE_SECONDS):
            while len(page) < min(RESULTS_PER_WRITE, remaining):
                page.append(await results.get())
    except TimeoutError:
        pass
    return page


def _active_changed(before: Status, after: Status) -> bool:
    return (before is Status.ACTIVE) != (after is Status.ACTIVE)
