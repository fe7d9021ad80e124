"""Rules that follow a check: status, anonymity, retention."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from proxypool import clock
from proxypool.checks.check import Blame, Check, Reason, Verdict
from proxypool.checks.rules.anonymity import anonymity_level
from proxypool.checks.rules.cadence import needs_quick_recheck
from proxypool.checks.rules.retention import is_prunable, prunable_checks
from proxypool.checks.rules.status import apply_check
from proxypool.config.settings import SETTING_SPECS
from proxypool.proxies.proxy import Anonymity, Status
from proxypool.proxies.record import CheckFacts, ProxyRecord

from tests.support.builders import NOW, a_record

PASSED, FAILED, INCONCLUSIVE = Verdict.PASSED, Verdict.FAILED, Verdict.INCONCLUSIVE


def a_check(verdict: Verdict, *, seconds: int = 0) -> Check:
    blame = {PASSED: None, FAILED: Blame.PROXY, INCONCLUSIVE: Blame.POOL}[verdict]
    at = NOW + timedelta(seconds=seconds)
    return Check(proxy_id=a_record().id, checked_at=at, verdict=verdict, blame=blame,
                 reason=None if verdict is PASSED else Reason.TIMEOUT, latency_ms=100.0 if verdict is PASSED else None)  # fmt: skip


def after_checks(record: ProxyRecord, *verdicts: Verdict) -> ProxyRecord:
    for verdict in verdicts:
        record = apply_check(record, a_check(verdict), active_seconds=600, dead_seconds=21_600)
    return record


@pytest.mark.parametrize(
    ("verdicts", "status", "seconds"),
    [
        ([PASSED], Status.ACTIVE, 600),
        ([FAILED], Status.DEAD, 21_600),  # never worked: dead at once
        ([INCONCLUSIVE], Status.UNCHECKED, 600),  # our fault, so inconclusive
        ([PASSED, FAILED], Status.ACTIVE, 60),  # one failure: quick recheck
        ([PASSED, FAILED, FAILED], Status.ACTIVE, 120),
        ([PASSED, FAILED, FAILED, FAILED], Status.DEAD, 21_600),
        ([PASSED, FAILED, FAILED, PASSED, FAILED], Status.ACTIVE, 60),  # in a row
        ([FAILED, FAILED], Status.DEAD, 43_200),  # doubling
        ([FAILED] * 9, Status.DEAD, 604_800),  # to a week
        ([FAILED, PASSED], Status.ACTIVE, 600),
    ],
)
def test_checks_determine_the_status_and_the_next_check(verdicts: list[Verdict], status: Status, seconds: int) -> None:
    record = after_checks(a_record(), *verdicts)

    assert record.status is status
    assert record.next_check_at == NOW + timedelta(seconds=seconds)
    assert needs_quick_recheck(record) is (seconds in (60, 120))


def test_an_inconclusive_check_leaves_the_score_untouched() -> None:
    """Case 32."""
    before = after_checks(a_record(), PASSED, FAILED)

    after = after_checks(before, INCONCLUSIVE)

    assert (after.check.passed, after.check.failed, after.last_checked_at) == (1.0, 1.0, NOW)


@given(st.lists(st.sampled_from([PASSED, FAILED, INCONCLUSIVE])))
def test_the_record_equals_a_fold_of_its_checks(verdicts: list[Verdict]) -> None:
    """I10."""
    record = after_checks(a_record(), *verdicts)
    conclusive = [verdict for verdict in verdicts if verdict is not INCONCLUSIVE]
    failures_in_row = next(
        (index for index, verdict in enumerate(reversed(conclusive)) if verdict is PASSED), len(conclusive)
    )

    assert record.check.count == len(verdicts)
    assert record.check.passed == conclusive.count(PASSED)
    assert record.check.failed == conclusive.count(FAILED)
    assert record.check.failures_in_row == failures_in_row


@given(st.lists(st.sampled_from([PASSED, FAILED, INCONCLUSIVE]), min_size=1))
def test_a_checked_proxy_is_always_due_again(verdicts: list[Verdict]) -> None:
    """I8."""
    record = after_checks(a_record(), *verdicts)

    assert record.next_check_at is not None
    assert record.next_check_at > NOW


def test_old_evidence_counts_half_after_a_day() -> None:
    record = apply_check(
        after_checks(a_record(), PASSED), a_check(PASSED, seconds=86_400), active_seconds=600, dead_seconds=1
    )

    assert record.check.passed == 1.5


@pytest.mark.parametrize(
    ("headers", "level"),
    [
        ([], Anonymity.ELITE),
        ([("via", "1.1 squid")], Anonymity.ANONYMOUS),
        ([("x-forwarded-for", "198.51.100.77")], Anonymity.ANONYMOUS),  # another address, not ours
        ([("x-forwarded-for", "203.0.113.9")], Anonymity.TRANSPARENT),
        ([("x-anything", "for=203.0.113.9;x")], Anonymity.TRANSPARENT),  # in any header
        ([("x-anything", "203.0.113.99")], Anonymity.ELITE),  # a longer address is a different one
        ([("x-edge", "203.0.113.9")], Anonymity.ELITE),  # the judge's edge adds it to every request
        ([("host", "203.0.113.9:80")], Anonymity.ELITE),  # the judge's own address
    ],
)
def test_headers_determine_the_anonymity_level(headers: list[tuple[str, str]], level: Anonymity) -> None:
    """Input 42."""
    direct = frozenset({("x-edge", "203.0.113.9")})

    assert anonymity_level(headers, own_addresses=frozenset({"203.0.113.9"}), direct_headers=direct) is level


@pytest.mark.parametrize(
    ("status", "success_days", "check_days", "prunable"),
    [
        (Status.DEAD, 31, 1, True),  # dead for a month, still checked
        (Status.DEAD, 1, 31, True),  # not checked for a month
        (Status.DEAD, 29, 1, False),
        (Status.ACTIVE, 31, 31, False),  # only dead proxies are pruned
        (Status.RETIRED, 31, 31, False),  # a tombstone stays
    ],
)
def test_only_proxies_that_were_dead_for_long_are_pruned(
    status: Status, success_days: int, check_days: int, prunable: bool
) -> None:
    """I22."""
    facts = CheckFacts(last_success_at=NOW - timedelta(days=success_days))
    record = replace(a_record(), status=status, check=facts, last_checked_at=NOW - timedelta(days=check_days))

    assert is_prunable(record, now=NOW, days=30) is prunable


def test_a_pruned_proxy_that_is_listed_again_is_kept_for_at_least_a_week() -> None:
    """A proxy that always fails is added again at most once in seven days, even if its list is scraped every hour."""
    min_days = int(SETTING_SPECS["dead_retention_days"].low)
    listed_again = apply_check(a_record(), a_check(FAILED), active_seconds=600, dead_seconds=21_600)

    pruned_after = [
        day for day in range(30) if is_prunable(listed_again, now=NOW + timedelta(days=day, hours=1), days=min_days)
    ]

    assert listed_again.status is Status.DEAD
    assert pruned_after[0] >= 7


@pytest.mark.parametrize(
    ("ages_days", "remaining"),
    [([1, 8, 9], 2), ([1, 2, 3], 3), ([8, 9, 10], 2)],  # old and not among the newest two
)
def test_old_checks_are_pruned_unless_they_are_among_the_newest(ages_days: list[int], remaining: int) -> None:
    keys = [f"{clock.iso(NOW - timedelta(days=age))}#1" for age in ages_days]

    assert len(keys) - len(prunable_checks(keys, now=NOW, days=7, keep=2)) == remaining
