"""One batch of the validate queue: claim, ask the judges, check all at once, write results as they come.

Failures of active proxies wait until the whole batch is known: where the pool seems to fail as a whole, they have no effect.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from proxypool import clock, queues
from proxypool.checks import direct, pipeline
from proxypool.checks.batch import Batch, Outcome
from proxypool.checks.cadence import is_full, is_quick, is_suspect
from proxypool.checks.check import Check, Reason, Verdict
from proxypool.checks.context import Bench
from proxypool.checks.freeze import Freezer
from proxypool.checks.low import tell_when_low
from proxypool.checks.rule import Rule, read_rules
from proxypool.checks.secret import judge_key
from proxypool.checks.status import fold
from proxypool.checks.table import ChecksTable
from proxypool.events import Event, publish
from proxypool.network import loop
from proxypool.proxies.proxy import Status
from proxypool.proxies.record import ProxyRecord
from proxypool.proxies.table import ProxyTable
from proxypool.queues import ValidateMessage
from proxypool.settings import Settings
from proxypool.state import State, operator_settings
from proxypool.telemetry import Metric, count, log

RESULTS_PER_WRITE: Final = 25
WRITE_SECONDS: Final = 1.0
JUDGE_DOWN_MARK: Final = "judge_down"  # so that one outage is told once
JUDGE_DOWN_SECONDS: Final = 900
DETECTED: Final = "detected"  # the source of a proxy that was filed anew, where its own is not known

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
    state: State
    settings: Settings
    now: Callable[[], datetime] = clock.now

    def validate(self, messages: Mapping[str, ValidateMessage], *, seconds: float) -> Outcome:
        """Checks the proxies of these messages (by proxy id) within so many seconds.

        Whoever cannot be claimed is left out: a duplicate or stale message, a proxy that is gone.
        """
        outcome = Outcome()
        claimed = self._claim(messages)
        outcome.counts["superseded"] = len(messages) - len(claimed)
        count(Metric.CHECKS_SUPERSEDED, outcome.counts["superseded"])
        if claimed:
            sweeps = {proxy_id: message.sweep_id for proxy_id, message in messages.items()}
            batch = Batch({record.id: record for record in claimed}, sweeps, outcome)
            try:
                loop.run(self._check(batch, seconds))
            except BaseException:
                self.proxies.release_claims({record.id: record.claim for record in batch.open_claims.values()})
                raise
        return outcome

    def _claim(self, messages: Mapping[str, ValidateMessage]) -> list[ProxyRecord]:
        due = {proxy_id: message.next_check_at for proxy_id, message in messages.items()}
        claims = self.proxies.claim_many(due, now=self.now(), claim_seconds=self.settings.claim_seconds)
        records = self.proxies.get_many(claims)
        return [replace(records[id_], claim=claim) for id_, claim in claims.items() if id_ in records]

    async def _check(self, batch: Batch, seconds: float) -> None:
        key = judge_key(self.settings.judge_secret_arn)
        bench = await direct.introduced(direct.bench(self.settings, key, self._rules()))
        if bench is None:
            self._judge_is_down(batch)
            return
        self.state.delete(JUDGE_DOWN_MARK)
        results: asyncio.Queue[Check | None] = asyncio.Queue()
        places = asyncio.Semaphore(self.settings.check_concurrency)
        ordered = sorted(batch.open_claims.values(), key=is_suspect, reverse=True)
        work = [asyncio.create_task(self._one(record, bench, places, results)) for record in ordered]
        remaining, deadline = len(work), asyncio.get_running_loop().time() + seconds
        try:
            while remaining:
                async with asyncio.timeout_at(deadline):  # the wait is cut short, a write never
                    page = await _next_page(results, remaining)
                remaining -= len(page)
                await asyncio.to_thread(self._write, batch.take([one for one in page if one]), batch)
        except TimeoutError:
            log.error("validate_proxy failed", error="Pipeline timeout", count=len(batch.open_claims) - len(batch.held))
        finally:
            for task in work:
                task.cancel()
            await asyncio.gather(*work, return_exceptions=True)
        await asyncio.to_thread(self._settle, batch)
        if batch.crossed:
            tell_when_low(self.state, self.settings)
        self._give_back(batch)

    async def _one(
        self, record: ProxyRecord, bench: Bench, places: asyncio.Semaphore, results: asyncio.Queue[Check | None]
    ) -> None:
        targets = frozenset(rule.host for rule in bench.rules)
        full = is_full(record, every=self.settings.check_tls_every, targets=targets)
        async with places:
            try:
                first = record.status is Status.UNCHECKED
                results.put_nowait(
                    await pipeline.check(
                        record.proxy, bench, now=self.now(), full=full, first=first, allow_private=record.allow_private
                    )
                )
            except Exception as error:  # a fault of ours in one check leaves its neighbours alone
                log.exception("check failed", proxy_id=record.id, error=type(error).__name__)
                results.put_nowait(None)

    def _settle(self, batch: Batch) -> None:
        """Writes what was held back: as failures, or without effect where the pool failed as a whole."""
        down = sum(check.reason is Reason.JUDGE_DOWN for _, _, check in batch.results)
        if down:
            self._tell_of_the_judge("no answer any more", down)
        frozen = Freezer(self.state, self.settings).settle(batch.results, self.now())
        held = [replace(check, frozen=frozen) for check in batch.held]
        batch.outcome.counts["frozen"] = len(held) if frozen else 0
        for start in range(0, len(held), RESULTS_PER_WRITE):
            self._write(held[start : start + RESULTS_PER_WRITE], batch)

    def _write(self, page: list[Check], batch: Batch) -> None:
        """Writes results under their claims; what took effect is recorded, counted, and checked again soon if it failed."""
        before = {check.proxy_id: batch.open_claims[check.proxy_id] for check in page}
        after = {check.proxy_id: self._folded(before[check.proxy_id], check) for check in page}
        took = self.proxies.record_many(list(after.values()))
        self.checks.add(
            [(check, before[check.proxy_id].claim) for check in page if check.proxy_id in took],
            ttl_days=self.settings.check_ttl_days,
        )
        for check in page:
            del batch.open_claims[check.proxy_id]
            verdict = check.verdict.value if check.proxy_id in took else "superseded"
            batch.outcome.counts[verdict] += 1
            count(_METRICS[check.verdict] if check.proxy_id in took else Metric.CHECKS_SUPERSEDED)
        self._recheck_soon([after[id_] for id_ in took])
        self._file_anew([(before[check.proxy_id], check) for check in page if check.proxy_id in took])
        batch.crossed |= any(_crossed(before[id_].status, after[id_].status) for id_ in took)

    def _folded(self, record: ProxyRecord, check: Check) -> ProxyRecord:
        known = self.settings
        return fold(record, check, active_seconds=known.active_recheck_seconds, dead_seconds=known.dead_recheck_seconds)

    def _recheck_soon(self, records: list[ProxyRecord]) -> None:
        """Sends the delayed messages; one that is lost ages out in the next sweep."""
        by_delay: dict[int, list[ValidateMessage]] = {}
        for record in filter(is_quick, records):
            if record.next_check_at is None:
                continue
            message = ValidateMessage(proxy_id=record.id, next_check_at=clock.epoch(record.next_check_at))
            by_delay.setdefault(record.check.interval_seconds, []).append(message)
        for delay, messages in by_delay.items():
            self._send(messages, delay_seconds=delay)

    def _file_anew(self, found: list[tuple[ProxyRecord, Check]]) -> None:
        """Files proxies that speak another protocol than their list says under that one, and has them checked at once."""
        for record, check in found:
            if check.spoken is None:
                continue
            new = self.proxies.upsert_many(
                [record.proxy._replace(protocol=check.spoken)], source_id=min(record.sources, default=DETECTED),
                kind=record.kind, tags=record.tags, now=self.now(),
            ).new  # fmt: skip
            self._send(
                [
                    ValidateMessage(proxy_id=one.id, next_check_at=clock.epoch(one.next_check_at))
                    for one in new
                    if one.next_check_at
                ]
            )

    def _send(self, messages: list[ValidateMessage], *, delay_seconds: int = 0) -> None:
        url = self.settings.need("validate_queue_url")
        try:
            queues.send(url, messages, group=queues.RECHECK_GROUP, delay_seconds=delay_seconds)
        except queues.SendFailed as error:
            log.warning("rechecks not sent", count=len(error.failed))

    def _rules(self) -> tuple[Rule, ...]:
        found = operator_settings(self.state).get("targets") or ()
        try:
            return read_rules(found, allow_loopback=self.settings.allow_loopback)
        except ValueError as error:
            log.error("target rules cannot be read", error=str(error))
            return ()

    def _judge_is_down(self, batch: Batch) -> None:
        """Nothing is known then: scores and rows stay as they are, all are due, new ones too; the next sweep asks again."""
        claimed = list(batch.open_claims.values())
        self.proxies.return_unasked(claimed, now=self.now())
        batch.open_claims.clear()
        batch.outcome.counts[Verdict.INCONCLUSIVE.value] += len(claimed)
        count(Metric.CHECKS_INCONCLUSIVE, len(claimed))
        self._tell_of_the_judge("no answer", len(claimed))

    def _tell_of_the_judge(self, reason: str, checks: int) -> None:
        """Once per outage: the mark goes when a batch finds a judge that answers."""
        count(Metric.JUDGE_DOWN)
        log.error("judge is down", reason=reason, count=checks)
        at = clock.iso(self.now())
        if self.state.put_if_absent(JUDGE_DOWN_MARK, at, ttl_seconds=JUDGE_DOWN_SECONDS):
            asked = self.settings.judge_url or self.settings.judge_echo_urls
            publish(self.settings.need("event_bus"), Event.JUDGE_DOWN, {"judge": asked, "reason": reason, "at": at})

    def _give_back(self, batch: Batch) -> None:
        if batch.open_claims:
            self.proxies.release_claims({record.id: record.claim for record in batch.open_claims.values()})
            batch.outcome.unfinished |= set(batch.open_claims)
            batch.outcome.counts["unfinished"] += len(batch.open_claims)


async def _next_page(results: asyncio.Queue[Check | None], at_most: int) -> list[Check | None]:
    """Up to 25 results, waiting for one without end and for the rest one second in all."""
    page = [await results.get()]
    try:
        async with asyncio.timeout(WRITE_SECONDS):
            while len(page) < min(RESULTS_PER_WRITE, at_most):
                page.append(await results.get())
    except TimeoutError:
        pass
    return page


def _crossed(before: Status, after: Status) -> bool:
    return (before is Status.ACTIVE) != (after is Status.ACTIVE)
