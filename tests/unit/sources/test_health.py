"""Health of a source: rules for suspicious lists, the resulting state, and the backoff."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from proxypool.sources import health
from proxypool.sources.health import Health, Sample, Suspicion, backoff, suspicion, usual_rows

COUNT = st.integers(0, 1_000_000)


def _sample(valid: int = 500, new: int | None = 0, largest_network: int = 1) -> Sample:
    return Sample(valid=valid, new=new, largest_network=largest_network)


@pytest.mark.parametrize(
    ("sample", "usual", "successes", "expected"),
    [
        (_sample(), 500, 3, None),
        (_sample(valid=0), 500, 3, Suspicion.FAR_FEWER_ROWS),  # a challenge page
        (_sample(valid=0), 500, 2, None),  # no baseline yet
        (_sample(valid=124), 500, 3, Suspicion.FAR_FEWER_ROWS),
        (_sample(valid=125), 500, 3, None),  # a quarter is not far fewer
        (_sample(valid=0), 99, 3, None),  # a short list may be empty once
        (_sample(new=400), 500, 3, Suspicion.MOSTLY_NEW),
        (_sample(new=399), 500, 3, None),
        (_sample(new=None), 500, 3, None),  # no digest: unknown
        (_sample(largest_network=150), 500, 3, Suspicion.ONE_NETWORK),
        (_sample(largest_network=149), 500, 3, None),
        (_sample(valid=100, new=100), 10, 3, Suspicion.MOSTLY_NEW),  # the larger of both sizes counts
        (_sample(valid=40, largest_network=40), 60, 9, None),
    ],
)
def test_a_list_is_suspicious_by_the_rules(
    sample: Sample, usual: int, successes: int, expected: Suspicion | None
) -> None:
    """Input 25, case 31: far fewer rows, 80 % new, 30 % in one /24; from the fourth list and 100 rows on."""
    assert suspicion(sample, usual=usual, successes=successes) is expected


@given(COUNT, st.none() | COUNT, COUNT, COUNT, st.integers(0, 2))
def test_no_list_is_suspicious_before_the_fourth(
    valid: int, new: int | None, largest: int, usual: int, successes: int
) -> None:
    """Input 25."""
    sample = Sample(valid=valid, new=new, largest_network=largest)

    assert suspicion(sample, usual=usual, successes=successes) is None


@given(COUNT, COUNT)
def test_an_unchanged_list_is_never_suspicious(valid: int, successes: int) -> None:
    """For any length: no new rows, the usual number of rows, several networks."""
    sample = Sample(valid=valid, new=0, largest_network=valid // 4)

    assert suspicion(sample, usual=valid, successes=successes) is None


@given(st.integers(0, 1000))
def test_three_suspicious_lists_in_a_row_quarantine_a_source(suspicions: int) -> None:
    """Input 25: suspect first, quarantined after three in a row, disabled only by a person."""
    state = health.health(enabled=True, suspicions=suspicions)

    assert state is (Health.HEALTHY if not suspicions else Health.SUSPECT if suspicions < 3 else Health.QUARANTINED)
    assert health.health(enabled=False, suspicions=suspicions) is Health.DISABLED


@given(COUNT, st.integers(0, 100), COUNT)
def test_the_usual_row_count_is_between_the_old_one_and_the_new_list(usual: int, successes: int, valid: int) -> None:
    """A moving average, which starts with the first list."""
    now = usual_rows(usual, successes, valid)

    assert now == valid if not successes else min(usual, valid) <= now <= max(usual, valid)


@given(st.integers(0, 10_000))
def test_the_backoff_of_a_source_without_yield_grows_up_to_a_day(barren: int) -> None:
    """Sources without yield are scraped less often."""
    assert backoff(0) == timedelta(0)
    assert backoff(barren) <= backoff(barren + 1) <= timedelta(hours=24)
    assert backoff(1) == timedelta(hours=1)
