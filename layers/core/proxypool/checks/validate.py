"""One batch of the validate queue: claim, ask the judge, check all at once, write results as they come."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from proxypool import clock, queues
from proxypool.checks import direct, pipeline
from proxypool.checks.check import Check, Verdict
from proxypool.checks.context import Bench
from proxypool.checks.low import tell_when_low
from proxypool.checks.secret import judge_key
from proxypool.checks.status import fold, is_quick
from proxypool.checks.table import ChecksTable
from proxypool.events import Event, publish
from proxypool.network import loop
from proxypool.proxies.proxy import Status
from proxypool.proxies.record import ProxyRecord
from proxypool.proxies.table import ProxyTable
from proxypool.queues import ValidateMessage
from proxypool.settings import Settings
from proxypool.state import State
from proxypool.telemetry import Metric, count, log

RESULTS_PER_WRITE: Final = 25
WRITE_SECONDS: Final = 1.0
RESERVE_SECONDS: Final = 10.0  # kept of the invocation, to write and to give back
JUDGE_DOWN_MARK: Final = "judge_down"  # so that one outage is told once
JUDGE_DOWN_SECONDS: Final = 900

_METRICS: Final = {
    Verdict.PASSED: Metric.CHECKS_PASSED,
    Verdict.FAILED: Metric.CHECKS_FAILED,
    Verdict.INCONCLUSIVE: Metric.CHECKS_INCONCLUSIVE,
}


@dataclass(slots=True)
class Outcome:
    """What a batch did: the counts, and the proxies whose messages must come again."""

    counts: Counter[str] = field(default_factory=Counter)
    unfinished: set[str] = field(default_factory=set)


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
            try:
                loop.run(self._check(claimed, outcome, max(0.0, seconds - RESERVE_SECONDS)))
            except BaseException:
                self.proxies.release_claims({record.id: record.claim for record in claimed})
                raise
        return outcome

    def _claim(self, messages: Mapping[str, ValidateMessage]) -> list[ProxyRecord]:
        due = {proxy_id: message.next_check_at for proxy_id, message in messages.items()}
        claims = self.proxies.claim_many(due, now=self.now(), claim_seconds=self.settings.claim_seconds)
        records = self.proxies.get_many(claims)
        return [replace(records[id_], claim=claim) for id_, claim in claims.items() if id_ in records]

    async def _check(self, claimed: list[ProxyRecord], outcome: Outcome, seconds: float) -> None:
        bench = await direct.introduced(direct.bench(self.settings, judge_key(self.settings.judge_secret_arn)))
        if bench is None:
            self._judge_is_down(claimed, outcome)
            return
        self.state.delete(JUDGE_DOWN_MARK)
        open_claims = {record.id: record for record in claimed}
        results: asyncio.Queue[Check | None] = asyncio.Queue()
        places = asyncio.Semaphore(self.settings.check_concurrency)
        work = [asyncio.create_task(self._one(record, bench, places, results)) for record in claimed]
        remaining, deadline = len(work), asyncio.get_running_loop().time() + seconds
        try:
            while remaining:
                async with asyncio.timeout_at(deadline):  # the wait is cut short, a write never
                    page = await _next_page(results, remaining)
                remaining -= len(page)
                await asyncio.to_thread(self._write, [one for one in page if one], open_claims, outcome)
        except TimeoutError:
            log.error("validate_proxy failed", error="Pipeline timeout", count=len(open_claims))
        finally:
            for task in work:
                task.cancel()
            await asyncio.gather(*work, return_exceptions=True)
        self._give_back(open_claims, outcome)

    async def _one(
        self, record: ProxyRecord, bench: Bench, places: asyncio.Semaphore, results: asyncio.Queue[Check | None]
    ) -> None:
        async with places:
            try:
                results.put_nowait(await pipeline.check(record.proxy, bench, now=self.now()))
            except Exception as error:  # a fault of ours in one check leaves its neighbours alone
                log.exception("check failed", proxy_id=record.id, error=type(error).__name__)
                results.put_nowait(None)

    def _write(self, page: list[Check], open_claims: dict[str, ProxyRecord], outcome: Outcome) -> None:
        """Writes results under their claims; what took effect is recorded, counted, and checked again soon if it failed."""
        before = {check.proxy_id: open_claims[check.proxy_id] for check in page}
        after = {check.proxy_id: self._folded(before[check.proxy_id], check) for check in page}
        took = self.proxies.record_many(list(after.values()))
        self.checks.add(
            [(check, before[check.proxy_id].claim) for check in page if check.proxy_id in took],
            ttl_days=self.settings.check_ttl_days,
        )
        for check in page:
            del open_claims[check.proxy_id]
            verdict = check.verdict.value if check.proxy_id in took else "superseded"
            outcome.counts[verdict] += 1
            count(_METRICS[check.verdict] if check.proxy_id in took else Metric.CHECKS_SUPERSEDED)
        self._recheck_soon([after[id_] for id_ in took])
        if any(_crossed(before[id_].status, after[id_].status) for id_ in took):
            tell_when_low(self.state, self.settings)

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
            url = self.settings.need("validate_queue_url")
            try:
                queues.send(url, messages, group=queues.RECHECK_GROUP, delay_seconds=delay)
            except queues.SendFailed as error:
                log.warning("rechecks not sent", count=len(error.failed))

    def _judge_is_down(self, claimed: list[ProxyRecord], outcome: Outcome) -> None:
        """Nothing is known then: scores and rows stay as they are, due as they were; the next sweep asks again."""
        self.proxies.release_claims({record.id: record.claim for record in claimed})
        outcome.counts[Verdict.INCONCLUSIVE.value] += len(claimed)
        count(Metric.CHECKS_INCONCLUSIVE, len(claimed))
        count(Metric.JUDGE_DOWN)
        log.error("judge is down", count=len(claimed))
        at = clock.iso(self.now())
        if self.state.put_if_absent(JUDGE_DOWN_MARK, at, ttl_seconds=JUDGE_DOWN_SECONDS):
            publish(self.settings.need("event_bus"), Event.JUDGE_DOWN, {"at": at, "proxies": len(claimed)})

    def _give_back(self, open_claims: dict[str, ProxyRecord], outcome: Outcome) -> None:
        if open_claims:
            self.proxies.release_claims({record.id: record.claim for record in open_claims.values()})
            outcome.unfinished |= set(open_claims)
            outcome.counts["unfinished"] += len(open_claims)


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
