"""When a proxy is checked again, and how thoroughly. Pure."""

from __future__ import annotations

from typing import Final

from proxypool.checks.check import Blame, Check, Reason
from proxypool.proxies.proxy import Status
from proxypool.proxies.record import CheckFacts, ProxyRecord

QUICK_RECHECKS_SECONDS: Final = (60, 120)  # after the first and the second failure of an active proxy
FAILURES_TO_DEATH: Final = len(QUICK_RECHECKS_SECONDS) + 1
MAX_DEAD_RECHECK_SECONDS: Final = 7 * 86_400


def interval(before: ProxyRecord, status: Status, facts: CheckFacts, *, active_seconds: int, dead_seconds: int) -> int:
    """Seconds to the next check of a proxy that has this status and these facts now."""
    if status is Status.DEAD:
        again = before.status is Status.DEAD
        wanted = 2 * before.check.interval_seconds if again and before.check.interval_seconds else dead_seconds
        return min(wanted, MAX_DEAD_RECHECK_SECONDS)
    if facts.failures_in_row:
        return QUICK_RECHECKS_SECONDS[facts.failures_in_row - 1]
    return active_seconds


def interval_without_verdict(before: ProxyRecord, check: Check, *, active_seconds: int, dead_seconds: int) -> int:
    """Seconds to the next check after one that said nothing: soon, unless we cannot ask this proxy at all."""
    cannot = check.blame is Blame.OURS and (check.reason is Reason.UNSUPPORTED or ":" in before.proxy.host)
    return dead_seconds if cannot and before.status is not Status.ACTIVE else active_seconds


def is_quick(record: ProxyRecord) -> bool:
    """Whether the next check comes by a delayed message instead of a sweep."""
    return record.status is Status.ACTIVE and record.check.failures_in_row > 0


def is_full(record: ProxyRecord, *, every: int, targets: frozenset[str] = frozenset()) -> bool:
    """Whether HTTPS, integrity and targets are asked this time: always, but for a proxy that was steady the last times.

    `targets` are the hosts of the rules: one that this proxy was never asked for makes the check full.
    """
    facts = record.check
    steady = (
        record.status is Status.ACTIVE
        and not facts.failures_in_row
        and not facts.tampered
        and targets <= facts.targets.keys()
        and all(fact.verdict == "ok" for fact in facts.targets.values())
    )
    return not steady or facts.light + 1 >= every


def is_suspect(record: ProxyRecord) -> bool:
    """Whether this is likely to take its whole time limit: such are begun first, so that a batch does not wait for the last."""
    return record.check.reason == Reason.TIMEOUT
