"""The health rule: the anomalies of a list, the health of its source, and the backoff of one without working proxies."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from proxypool.sources import health
from proxypool.sources.health import Health, Sample, Suspicion, backoff, suspicion, updated_baseline

COUNT = st.integers(0, 1_000_000)


def _sample(valid: int = 500, new: int | None = 0, largest_network: int = 1) -> Sample:
    return Sample(valid=valid, new=new, largest_network=largest_network)


@pytest.mark.parametrize(
    ("sample", "baseline", "successes", "wrong"),
    [
        (_sample(), 500, 3, None),
        (_sample(valid=0), 500, 3, Suspicion.FAR_FEWER_ROWS),  # a challenge page
        (_sample(valid=0), 500, 2, None),  # too early for a baseline
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
def test_a_list_looks_wrong_by_the_rule(sample: Sample, baseline: int, successes: int, wrong: Suspicion | None) -> None:
    """Input 25, case 31: far fewer rows, 80 % new at once, 30 % in one /24; from the fourth list, from 100 rows on."""
    assert suspicion(sample, baseline_rows=baseline, successes=successes) is wrong


@given(COUNT, st.none() | COUNT, COUNT, COUNT, st.integers(0, 2))
def test_nothing_looks_wrong_before_the_fourth_list(
    valid: int, new: int | None, largest: int, baseline: int, successes: int
) -> None:
    """Input 25."""
    sample = Sample(valid=valid, new=new, largest_network=largest)

    assert suspicion(sample, baseline_rows=baseline, successes=successes) is None


@given(COUNT, COUNT)
def test_an_unchanged_list_is_never_suspicious(valid: int, successes: int) -> None:
    """For any length: no new rows, the usual number of rows, several networks."""
    sample = Sample(valid=valid, new=0, largest_network=valid // 4)

    assert suspicion(sample, baseline_rows=valid, successes=successes) is None


@given(st.integers(0, 1000))
def test_only_a_person_disables_and_three_in_a_row_quarantine(streak: int) -> None:
    """Input 25: suspect first, quarantined after three in a row."""
    state = health.health(enabled=True, anomaly_streak=streak)

    assert state is (Health.HEALTHY if not streak else Health.SUSPECT if streak < 3 else Health.QUARANTINED)
    assert health.health(enabled=False, anomaly_streak=streak) is Health.DISABLED


@given(COUNT, st.integers(0, 100), COUNT)
def test_the_baseline_moves_towards_the_newest_list(baseline: int, successes: int, valid: int) -> None:
    """A smoothed mean; the first list says it all."""
    now = updated_baseline(baseline, successes, valid)

    assert now == valid if not successes else min(baseline, valid) <= now <= max(baseline, valid)


@given(st.integers(0, 10_000))
def test_the_backoff_of_a_source_without_working_proxies_grows_up_to_a_day(streak: int) -> None:
    """Zero yield slows a source down."""
    assert backoff(0) == timedelta(0)
    assert backoff(streak) <= backoff(streak + 1) <= timedelta(hours=24)
    assert backoff(1) == timedelta(hours=1)
