"""What a check does to a proxy's record: its status, its numbers, when it is checked again. Pure; the row is a fold of its checks."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from proxypool.checks.check import Blame, Check, Verdict
from proxypool.proxies.proxy import Status
from proxypool.proxies.record import CheckFacts, ProxyRecord

QUICK_RECHECKS_SECONDS: Final = (60, 120)  # after the first and the second failure of an active proxy
FAILURES_TO_DEATH: Final = len(QUICK_RECHECKS_SECONDS) + 1
MAX_DEAD_RECHECK_SECONDS: Final = 7 * 86_400
HALF_LIFE_SECONDS: Final = 86_400.0  # evidence of yesterday counts half
SMOOTHING: Final = 0.3  # the weight of the newest latency


def fold(record: ProxyRecord, check: Check, *, active_seconds: int, dead_seconds: int) -> ProxyRecord:
    """The record after this check. An inconclusive one moves the next check only."""
    if check.verdict is Verdict.INCONCLUSIVE:
        next_at = check.checked_at + timedelta(seconds=active_seconds)
        facts = replace(record.check, count=record.check.count + 1, unpruned=record.check.unpruned + 1)
        checked_at = record.last_checked_at or check.checked_at
        return replace(record, check=facts, last_checked_at=checked_at, next_check_at=next_at)
    facts = _counted(record, check)
    facts = _passed(facts, check) if check.verdict is Verdict.PASSED else _failed(facts, check)
    status = _status(record.status, facts)
    interval = _interval(record, status, facts, active_seconds=active_seconds, dead_seconds=dead_seconds)
    return replace(
        record,
        status=status,
        check=replace(facts, interval_seconds=interval),
        last_checked_at=check.checked_at,
        next_check_at=check.checked_at + timedelta(seconds=interval),
    )


def is_quick(record: ProxyRecord) -> bool:
    """Whether the next check comes by a delayed message instead of a sweep."""
    return record.status is Status.ACTIVE and record.check.failures_in_row > 0


def _counted(record: ProxyRecord, check: Check) -> CheckFacts:
    """The counts, decayed by the time since the last check, with this one in them."""
    weight = _decay(record.last_checked_at, check.checked_at)
    old, passed = record.check, check.verdict is Verdict.PASSED
    return replace(
        old,
        passed=old.passed * weight + passed,
        failed=old.failed * weight + (not passed),
        count=old.count + 1,
        unpruned=old.unpruned + 1,
    )


def _decay(last: datetime | None, now: datetime) -> float:
    if last is None:
        return 1.0
    return float(0.5 ** (max(0.0, (now - last).total_seconds()) / HALF_LIFE_SECONDS))


def _passed(facts: CheckFacts, check: Check) -> CheckFacts:
    latency, jitter = _smoothed(facts, check.latency_ms)
    return replace(
        facts,
        failures_in_row=0,
        latency_ms=latency,
        jitter_ms=jitter,
        exit_ip=check.exit_ip or facts.exit_ip,
        country=check.country or facts.country,
        anonymity=check.anonymity or facts.anonymity,
        https=check.https,
        tampered=check.tampered,
        signed=check.signed,
        reason=check.reason.value if check.reason else "",
        blame=check.blame.value if check.blame else "",
        last_success_at=check.checked_at,
    )


def _failed(facts: CheckFacts, check: Check) -> CheckFacts:
    return replace(
        facts,
        failures_in_row=facts.failures_in_row + 1,
        reason=check.reason.value if check.reason else "",
        blame=(check.blame or Blame.PROXY).value,
    )


def _smoothed(facts: CheckFacts, latency_ms: float | None) -> tuple[float | None, float | None]:
    if latency_ms is None:
        return facts.latency_ms, facts.jitter_ms
    if facts.latency_ms is None:
        return latency_ms, 0.0
    latency = facts.latency_ms + SMOOTHING * (latency_ms - facts.latency_ms)
    jitter = facts.jitter_ms or 0.0
    return latency, jitter + SMOOTHING * (abs(latency_ms - facts.latency_ms) - jitter)


def _status(before: Status, facts: CheckFacts) -> Status:
    if facts.failures_in_row == 0:
        return Status.ACTIVE
    if before is Status.ACTIVE and facts.failures_in_row < FAILURES_TO_DEATH:
        return Status.ACTIVE
    return Status.DEAD


def _interval(before: ProxyRecord, status: Status, facts: CheckFacts, *, active_seconds: int, dead_seconds: int) -> int:
    if status is Status.DEAD:
        again = before.status is Status.DEAD
        wanted = 2 * before.check.interval_seconds if again and before.check.interval_seconds else dead_seconds
        return min(wanted, MAX_DEAD_RECHECK_SECONDS)
    if facts.failures_in_row:
        return QUICK_RECHECKS_SECONDS[facts.failures_in_row - 1]
    return active_seconds
