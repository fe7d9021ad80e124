"""The score: pure, bounded, monotonic in the evidence."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from proxypool.proxies.record import CheckFacts, LeaseFacts
from proxypool.proxies.score import score, wilson_lower_bound

COUNTS = st.floats(0, 1_000)
MS = st.floats(0, 60_000)


@given(COUNTS, COUNTS, MS, MS, COUNTS, COUNTS)
def test_a_score_is_between_zero_and_one(
    passed: float, failed: float, latency: float, jitter: float, ok: float, bad: float
) -> None:
    facts = CheckFacts(passed=passed, failed=failed, latency_ms=latency, jitter_ms=jitter)
    assert 0 <= score(facts, LeaseFacts(ok=ok, bad=bad)).value <= 1


@given(st.integers(1, 100), st.integers(0, 100))
def test_more_evidence_with_the_same_success_rate_scores_higher(good: int, bad: int) -> None:
    assert wilson_lower_bound(good * 2, (good + bad) * 2) >= wilson_lower_bound(good, good + bad)


def test_latency_jitter_and_failures_each_lower_the_score() -> None:
    good = score(CheckFacts(passed=9, latency_ms=100), LeaseFacts()).value
    assert score(CheckFacts(passed=9, latency_ms=900), LeaseFacts()).value < good
    assert score(CheckFacts(passed=9, latency_ms=100, jitter_ms=40), LeaseFacts()).value < good
    assert score(CheckFacts(passed=9, latency_ms=100), LeaseFacts(bad=3)).value < good


def test_a_proxy_without_evidence_scores_zero() -> None:
    assert score(CheckFacts(), LeaseFacts()).value == 0
