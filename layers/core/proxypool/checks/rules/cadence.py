"""Recheck schedule of a proxy: the interval to the next check, and how thorough it is. Pure."""

from __future__ import annotations

from typing import Final

from proxypool.checks.check import Blame, Check, Reason
from proxypool.proxies.proxy import Status
from proxypool.proxies.record import CheckFacts, ProxyRecord

QUICK_RECHECK_SECONDS: Final = (60, 120)  # after the first and the second failure of an active proxy
FAILURES_UNTIL_DEAD: Final = len(QUICK_RECHECK_SECONDS) + 1
MAX_DEAD_RECHECK_SECONDS: Final = 7 * 86_400


def next_interval_seconds(
    before: ProxyRecord, status: Status, facts: CheckFacts, *, active_seconds: int, dead_seconds: int
) -> int:
    """Seconds from this check to the next; `status` and `facts` are those after the check."""
    if status is Status.DEAD:
        was_dead = before.status is Status.DEAD
        seconds = 2 * before.check.interval_seconds if was_dead and before.check.interval_seconds else dead_seconds
        return min(seconds, MAX_DEAD_RECHECK_SECONDS)
    if facts.failures_in_row:
        return QUICK_RECHECK_SECONDS[facts.failures_in_row - 1]
    return active_seconds


def interval_after_inconclusive(before: ProxyRecord, check: Check, *, active_seconds: int, dead_seconds: int) -> int:
    """Seconds to the next check after an inconclusive one: short, unless the pool cannot reach this proxy at all."""
    unreachable = check.blame is Blame.POOL and (check.reason is Reason.UNSUPPORTED or ":" in before.proxy.host)
    return dead_seconds if unreachable and before.status is not Status.ACTIVE else active_seconds


def needs_quick_recheck(record: ProxyRecord) -> bool:
    """True if the next check comes from a delayed message instead of a sweep."""
    return record.status is Status.ACTIVE and record.check.failures_in_row > 0


def needs_full_check(record: ProxyRecord, *, every_nth: int, targets: frozenset[str] = frozenset()) -> bool:
    """True if the next check includes HTTPS, integrity and targets.

    Always, except for a stable proxy, where it is every Nth check. `targets` are the hosts of the rules: the check is
    full if one of them is new to this proxy.
    """
    facts = record.check
    stable = (
        record.status is Status.ACTIVE
        and not facts.failures_in_row
        and not facts.tampered
        and targets <= facts.targets.keys()
        and all(fact.verdict == "ok" for fact in facts.targets.values())
    )
    return not stable or facts.checks_since_full + 1 >= every_nth


def is_likely_slow(record: ProxyRecord) -> bool:
    """True if the check will probably time out. Such checks start first, so that they do not prolong the batch."""
    return record.check.reason == Reason.TIMEOUT
