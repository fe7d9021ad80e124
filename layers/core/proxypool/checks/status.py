"""What a check does to a proxy's record: its status, its numbers, when it is checked again. Pure; the row is a fold of its checks."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from proxypool.checks.cadence import FAILURES_TO_DEATH, interval, interval_without_verdict
from proxypool.checks.check import Blame, Check, Verdict
from proxypool.proxies.proxy import Status
from proxypool.proxies.record import CheckFacts, ProxyRecord, TargetFact

HALF_LIFE_SECONDS: Final = 86_400.0  # evidence of yesterday counts half
SMOOTHING: Final = 0.3  # the weight of the newest latency
MAX_OTHER_EXITS: Final = 3  # of a rotating proxy: a row stays small


def fold(record: ProxyRecord, check: Check, *, active_seconds: int, dead_seconds: int) -> ProxyRecord:
    """The record after this check. An inconclusive or frozen one is counted, and moves the next check only."""
    if check.verdict is Verdict.INCONCLUSIVE or check.frozen:
        wait = interval_without_verdict(record, check, active_seconds=active_seconds, dead_seconds=dead_seconds)
        facts = replace(record.check, count=record.check.count + 1, unpruned=record.check.unpruned + 1)
        checked_at = record.last_checked_at or check.checked_at
        next_at = check.checked_at + timedelta(seconds=wait)
        return replace(record, check=facts, last_checked_at=checked_at, next_check_at=next_at)
    facts = _counted(record, check)
    facts = _passed(facts, check) if check.verdict is Verdict.PASSED else _failed(facts, check)
    status = _status(record.status, facts)
    wait = interval(record, status, facts, active_seconds=active_seconds, dead_seconds=dead_seconds)
    return replace(
        record,
        status=status,
        check=replace(facts, interval_seconds=wait),
        last_checked_at=check.checked_at,
        next_check_at=check.checked_at + timedelta(seconds=wait),
    )


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
    exit_ip, exits = _exits(facts, check)
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
        basis=check.basis.value if check.basis else facts.basis,
        https=facts.https if check.https is None else check.https,
        light=0 if check.full else facts.light + 1,
        tampered=check.tampered,
        signed=check.signed,
        reason=check.reason.value if check.reason else "",
        blame=check.blame.value if check.blame else "",
        last_success_at=check.checked_at,
        targets=_targets(check) if check.full else facts.targets,
    )


def _targets(check: Check) -> dict[str, TargetFact]:
    return {host: TargetFact(verdict=verdict.value, at=check.checked_at) for host, verdict in check.targets.items()}


def _exits(facts: CheckFacts, check: Check) -> tuple[str | None, tuple[str, ...]]:
    """The exit that counts, and the others of late. A plain leg alone does not overrule what the HTTPS leg has shown."""
    seen = check.exits
    if not seen:
        return facts.exit_ip, facts.exits
    known = facts.exit_ip is not None and not check.full and seen[-1] in facts.exits
    exit_ip = facts.exit_ip if known else seen[-1]
    others = dict.fromkeys([*facts.exits, *filter(None, [facts.exit_ip]), *seen])
    return exit_ip, tuple(one for one in others if one != exit_ip)[-MAX_OTHER_EXITS:]


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
