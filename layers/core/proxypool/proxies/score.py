"""Quality score of a proxy, 0.0–1.0: a pure function of check results and reported outcomes, computed on read.

score = reliability × speed × stability

- reliability: lower bound of the Wilson score interval (z = 1) of the success rate, so that three successes of three count
  less than thirty of thirty. Source: E. B. Wilson, "Probable Inference, the Law of Succession, and Statistical
  Inference", JASA 22 (1927).
- speed: 1 at 0 ms, 0.5 at 2,000 ms.
- stability: 1 minus jitter ÷ latency (both smoothed), at least 0.5.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from proxypool.proxies.record import CheckFacts, LeaseFacts

HALF_SPEED_MS = 2_000.0
MIN_STABILITY = 0.5
MIN_EVIDENCE = 1e-6  # decayed counts never reach zero


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """A score and its three factors, each 0.0–1.0."""

    reliability: float
    speed: float
    stability: float

    @property
    def value(self) -> float:
        """The product of the factors."""
        return self.reliability * self.speed * self.stability


def score(check: CheckFacts, lease: LeaseFacts) -> Score:
    """The score for these facts; 0 without any success."""
    good, bad = check.passed + lease.ok, check.failed + lease.bad
    latency = check.latency_ms
    return Score(
        reliability=wilson_lower_bound(good, good + bad),
        speed=0.0 if latency is None else HALF_SPEED_MS / (HALF_SPEED_MS + latency),
        stability=1.0 if not latency else max(MIN_STABILITY, 1.0 - (check.jitter_ms or 0.0) / latency),
    )


def wilson_lower_bound(good: float, total: float) -> float:
    """Lower bound of the Wilson score interval at z = 1; 0.0 without evidence."""
    if total < MIN_EVIDENCE:
        return 0.0
    rate, z = min(1.0, good / total), 1.0
    center = rate + z * z / (2 * total)
    spread = z * math.sqrt(rate * (1 - rate) / total + z * z / (4 * total * total))
    return max(0.0, (center - spread) / (1 + z * z / total))
