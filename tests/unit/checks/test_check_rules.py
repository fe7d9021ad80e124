"""The rules that follow a check: status, anonymity, retention."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from proxypool import clock
from proxypool.checks.anonymity import anonymity
from proxypool.checks.cadence import is_quick
from proxypool.checks.check import Blame, Check, Reason, Verdict
from proxypool.checks.retention import is_prunable, prunable_checks
from proxypool.checks.status import fold
from proxypool.proxies.proxy import Anonymity, Status
from proxypool.proxies.record import CheckFacts, ProxyRecord
from proxypool.settings import ROWS

from tests.support.builders import NOW, a_record

PASSED, FAILED, UNKNOWN = Verdict.PASSED, Verdict.FAILED, Verdict.INCONCLUSIVE


def a_check(verdict: Verdict, *, seconds: int = 0) -> Check:
    blame = {PASSED: None, FAILED: Blame.PROXY, UNKNOWN: Blame.OURS}[verdict]
    at = NOW + timedelta(seconds=seconds)
    return Check(proxy_id=a_record().id, checked_at=at, verdict=verdict, blame=blame,
                 reason=None if verdict is PASSED else Reason.TIMEOUT, latency_ms=100.0 if verdict is PASSED else None)  # fmt: skip


def folded(record: ProxyRecord, *verdicts: Verdict) -> ProxyRecord:
    for verdict in verdicts:
        record = fold(record, a_check(verdict), active_seconds=600, dead_seconds=21_600)
    return record


@pytest.mark.parametrize(
    ("verdicts", "status", "seconds"),
    [
        ([PASSED], Status.ACTIVE, 600),
        ([FAILED], Status.DEAD, 21_600),  # never worked: dead at once
        ([UNKNOWN], Status.UNCHECKED, 600),  # our fault says nothing
        ([PASSED, FAILED], Status.ACTIVE, 60),  # one failure: looked at again soon
        ([PASSED, FAILED, FAILED], Status.ACTIVE, 120),
        ([PASSED, FAILED, FAILED, FAILED], Status.DEAD, 21_600),
        ([PASSED, FAILED, FAILED, PASSED, FAILED], Status.ACTIVE, 60),  # in a row
        ([FAILED, FAILED], Status.DEAD, 43_200),  # doubling
        ([FAILED] * 9, Status.DEAD, 604_800),  # to a week
        ([FAILED, PASSED], Status.ACTIVE, 600),
    ],
)
def test_checks_decide_the_status_and_the_next_check(verdicts: list[Verdict], status: Status, seconds: int) -> None:
    record = folded(a_record(), *verdicts)

    assert record.status is status
    assert record.next_check_at == NOW + timedelta(seconds=seconds)
    assert is_quick(record) is (seconds in (60, 120))


def test_an_inconclusive_check_leaves_the_score_untouched() -> None:
    """Case 32."""
    before = folded(a_record(), PASSED, FAILED)

    after = folded(before, UNKNOWN)

    assert (after.check.passed, after.check.failed, after.last_checked_at) == (1.0, 1.0, NOW)


@given(st.lists(st.sampled_from([PASSED, FAILED, UNKNOWN])))
def test_the_row_equals_a_fold_of_its_checks(verdicts: list[Verdict]) -> None:
    """I10."""
    record = folded(a_record(), *verdicts)
    known = [verdict for verdict in verdicts if verdict is not UNKNOWN]
    row = next((index for index, verdict in enumerate(reversed(known)) if verdict is PASSED), len(known))

    assert record.check.count == len(verdicts)
    assert record.check.passed == known.count(PASSED)
    assert record.check.failed == known.count(FAILED)
    assert record.check.failures_in_row == row


@given(st.lists(st.sampled_from([PASSED, FAILED, UNKNOWN]), min_size=1))
def test_a_checked_proxy_is_always_due_again(verdicts: list[Verdict]) -> None:
    """I8."""
    record = folded(a_record(), *verdicts)

    assert record.next_check_at is not None
    assert record.next_check_at > NOW


def test_old_evidence_counts_half_after_a_day() -> None:
    record = fold(folded(a_record(), PASSED), a_check(PASSED, seconds=86_400), active_seconds=600, dead_seconds=1)

    assert record.check.passed == 1.5


@pytest.mark.parametrize(
    ("headers", "level"),
    [
        ([], Anonymity.ELITE),
        ([("via", "1.1 squid")], Anonymity.ANONYMOUS),
        ([("x-forwarded-for", "198.51.100.77")], Anonymity.ANONYMOUS),  # somebody, not us
        ([("x-forwarded-for", "203.0.113.9")], Anonymity.TRANSPARENT),
        ([("x-anything", "for=203.0.113.9;x")], Anonymity.TRANSPARENT),  # in any header
        ([("x-anything", "203.0.113.99")], Anonymity.ELITE),  # a longer address is another one
        ([("x-edge", "203.0.113.9")], Anonymity.ELITE),  # the judge's own edge adds it to every request
        ([("host", "203.0.113.9:80")], Anonymity.ELITE),  # where the judge is
    ],
)
def test_headers_decide_the_anonymity(headers: list[tuple[str, str]], level: Anonymity) -> None:
    """Input 42."""
    direct = frozenset({("x-edge", "203.0.113.9")})

    assert anonymity(headers, own=frozenset({"203.0.113.9"}), direct=direct) is level


@pytest.mark.parametrize(
    ("status", "success_days", "check_days", "goes"),
    [
        (Status.DEAD, 31, 1, True),  # dead for a month, still looked at
        (Status.DEAD, 1, 31, True),  # nobody looked for a month
        (Status.DEAD, 29, 1, False),
        (Status.ACTIVE, 31, 31, False),  # only the dead go
        (Status.RETIRED, 31, 31, False),  # a tombstone stays
    ],
)
def test_only_the_long_dead_are_pruned(status: Status, success_days: int, check_days: int, goes: bool) -> None:
    """I22."""
    facts = CheckFacts(last_success_at=NOW - timedelta(days=success_days))
    record = replace(a_record(), status=status, check=facts, last_checked_at=NOW - timedelta(days=check_days))

    assert is_prunable(record, now=NOW, days=30) is goes


def test_a_pruned_proxy_that_its_list_brings_back_stays_for_a_week_at_least() -> None:
    """So it comes back once in seven days at most, though lists name it every hour and it fails at once, each time."""
    least = int(ROWS["dead_retention_days"].low)
    brought_back = fold(a_record(), a_check(FAILED), active_seconds=600, dead_seconds=21_600)

    gone = [day for day in range(30) if is_prunable(brought_back, now=NOW + timedelta(days=day, hours=1), days=least)]

    assert brought_back.status is Status.DEAD
    assert gone[0] >= 7


@pytest.mark.parametrize(
    ("ages_days", "left"),
    [([1, 8, 9], 2), ([1, 2, 3], 3), ([8, 9, 10], 2)],  # old and not among the newest two
)
def test_old_checks_go_unless_they_are_among_the_newest(ages_days: list[int], left: int) -> None:
    keys = [f"{clock.iso(NOW - timedelta(days=age))}#1" for age in ages_days]

    assert len(keys) - len(prunable_checks(keys, now=NOW, days=7, keep=2)) == left
