"""The score: pure, bounded, and moved by evidence in the right direction."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from proxypool.proxies.record import CheckFacts, LeaseFacts
from proxypool.proxies.score import score, wilson

COUNTS = st.floats(0, 1_000)
MS = st.floats(0, 60_000)


@given(COUNTS, COUNTS, MS, MS, COUNTS, COUNTS)
def test_a_score_lies_between_nothing_and_one(
    passed: float, failed: float, latency: float, jitter: float, ok: float, bad: float
) -> None:
    facts = CheckFacts(passed=passed, failed=failed, latency_ms=latency, jitter_ms=jitter)
    assert 0 <= score(facts, LeaseFacts(ok=ok, bad=bad)).value <= 1


@given(st.integers(1, 100), st.integers(0, 100))
def test_more_evidence_of_the_same_share_counts_for_more(good: int, bad: int) -> None:
    assert wilson(good * 2, (good + bad) * 2) >= wilson(good, good + bad)


def test_a_slower_a_shakier_and_a_failing_proxy_each_score_less() -> None:
    good = score(CheckFacts(passed=9, latency_ms=100), LeaseFacts()).value
    assert score(CheckFacts(passed=9, latency_ms=900), LeaseFacts()).value < good
    assert score(CheckFacts(passed=9, latency_ms=100, jitter_ms=40), LeaseFacts()).value < good
    assert score(CheckFacts(passed=9, latency_ms=100), LeaseFacts(bad=3)).value < good


def test_nothing_known_is_nothing() -> None:
    assert score(CheckFacts(), LeaseFacts()).value == 0
