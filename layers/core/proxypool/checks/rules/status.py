"""Effect of a check on a proxy's record: status, counts, next check. Pure; a row equals a left fold of its checks."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from proxypool.checks.check import Blame, Check, Verdict
from proxypool.checks.rules.cadence import FAILURES_UNTIL_DEAD, interval_after_inconclusive, next_interval_seconds
from proxypool.proxies.proxy import Status
from proxypool.proxies.record import CheckFacts, ProxyRecord, TargetFact

HALF_LIFE_SECONDS: Final = 86_400.0  # a check from yesterday weighs half
LATENCY_EWMA_WEIGHT: Final = 0.3  # the weight of the newest latency
MAX_OTHER_EXITS: Final = 3  # of a rotating proxy: bounds the size of the row


def apply_check(record: ProxyRecord, check: Check, *, active_seconds: int, dead_seconds: int) -> ProxyRecord:
    """The record after this check. An inconclusive or frozen check is counted and only moves the next check."""
    if check.verdict is Verdict.INCONCLUSIVE or check.frozen:
        interval_seconds = interval_after_inconclusive(
            record, check, active_seconds=active_seconds, dead_seconds=dead_seconds
        )
        facts = replace(record.check, count=record.check.count + 1, unpruned=record.check.unpruned + 1)
        checked_at = record.last_checked_at or check.checked_at
        next_at = check.checked_at + timedelta(seconds=interval_seconds)
        return replace(record, check=facts, last_checked_at=checked_at, next_check_at=next_at)
    facts = _with_counts(record, check)
    facts = _after_pass(facts, check) if check.verdict is Verdict.PASSED else _after_failure(facts, check)
    status = _next_status(record.status, facts)
    interval_seconds = next_interval_seconds(
        record, status, facts, active_seconds=active_seconds, dead_seconds=dead_seconds
    )
    return replace(
        record,
        status=status,
        check=replace(facts, interval_seconds=interval_seconds),
        last_checked_at=check.checked_at,
        next_check_at=check.checked_at + timedelta(seconds=interval_seconds),
    )


def _with_counts(record: ProxyRecord, check: Check) -> CheckFacts:
    """The counts, decayed by the time since the last check, plus this check."""
    weight = _decay(record.last_checked_at, check.checked_at)
    before, passed = record.check, check.verdict is Verdict.PASSED
    return replace(
        before,
        passed=before.passed * weight + passed,
        failed=before.failed * weight + (not passed),
        count=before.count + 1,
        unpruned=before.unpruned + 1,
    )


def _decay(last: datetime | None, now: datetime) -> float:
    if last is None:
        return 1.0
    return float(0.5 ** (max(0.0, (now - last).total_seconds()) / HALF_LIFE_SECONDS))


def _after_pass(facts: CheckFacts, check: Check) -> CheckFacts:
    latency, jitter = _smooth_latency(facts, check.latency_ms)
    exit_ip, exits = _merge_exits(facts, check)
    return replace(
        facts,
        failures_in_row=0,
        latency_ms=latency,
        jitter_ms=jitter,
        exit_ip=exit_ip,
        exits=exits,
        country=check.country or facts.country,
        region=check.region or (facts.region if check.country in (None, facts.country) else None),
        asn=check.asn or facts.asn,
        anonymity=check.anonymity or facts.anonymity,
        anonymity_basis=check.basis.value if check.basis else facts.anonymity_basis,
        https=facts.https if check.https is None else check.https,
        checks_since_full=0 if check.full else facts.checks_since_full + 1,
        tampered=check.tampered,
        signed=check.signed,
        reason=check.reason.value if check.reason else "",
        blame=check.blame.value if check.blame else "",
        last_success_at=check.checked_at,
        targets=_target_facts(check) if check.full else facts.targets,
    )


def _target_facts(check: Check) -> dict[str, TargetFact]:
    return {host: TargetFact(verdict=verdict.value, at=check.checked_at) for host, verdict in check.targets.items()}


def _merge_exits(facts: CheckFacts, check: Check) -> tuple[str | None, tuple[str, ...]]:
    """The current exit IP and the other recent ones. A plain HTTP request does not replace the exit IP of an HTTPS one."""
    observed = check.exits
    if not observed:
        return facts.exit_ip, facts.exits
    keeps_current = facts.exit_ip is not None and not check.full and observed[-1] in facts.exits
    exit_ip = facts.exit_ip if keeps_current else observed[-1]
    addresses = dict.fromkeys([*facts.exits, *filter(None, [facts.exit_ip]), *observed])
    return exit_ip, tuple(address for address in addresses if address != exit_ip)[-MAX_OTHER_EXITS:]


def _after_failure(facts: CheckFacts, check: Check) -> CheckFacts:
    return replace(
        facts,
        failures_in_row=facts.failures_in_row + 1,
        reason=check.reason.value if check.reason else "",
        blame=(check.blame or Blame.PROXY).value,
    )


def _smooth_latency(facts: CheckFacts, latency_ms: float | None) -> tuple[float | None, float | None]:
    if latency_ms is None:
        return facts.latency_ms, facts.jitter_ms
    if facts.latency_ms is None:
        return latency_ms, 0.0
    latency = facts.latency_ms + LATENCY_EWMA_WEIGHT * (latency_ms - facts.latency_ms)
    jitter = facts.jitter_ms or 0.0
    return latency, jitter + LATENCY_EWMA_WEIGHT * (abs(latency_ms - facts.latency_ms) - jitter)


def _next_status(before: Status, facts: CheckFacts) -> Status:
    if facts.failures_in_row == 0:
        return Status.ACTIVE
    if before is Status.ACTIVE and facts.failures_in_row < FAILURES_UNTIL_DEAD:
        return Status.ACTIVE
    return Status.DEAD
