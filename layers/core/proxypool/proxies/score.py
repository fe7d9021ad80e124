"""How good a proxy is, 0.0–1.0: a pure function of what checks found and holders reported, computed where it is read.

score = reliability × speed × stability

- reliability: the lower end of Wilson's interval (z = 1) for the share of good evidence, so that three of three count for
  less than thirty of thirty. Source: E. B. Wilson, "Probable Inference, the Law of Succession, and Statistical
  Inference", JASA 22 (1927).
- speed: half at 2,000 ms, 1 at 0 ms.
- stability: 1 less the smoothed deviation of the latency over the latency, at least one half.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from proxypool.proxies.record import CheckFacts, LeaseFacts

HALF_SPEED_MS = 2_000.0
LEAST_STABILITY = 0.5
LEAST_EVIDENCE = 1e-6  # decayed counts never reach zero


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """A score and its three parts, each 0.0–1.0: what `explain` shows."""

    reliability: float
    speed: float
    stability: float

    @property
    def value(self) -> float:
        """The product of the parts."""
        return self.reliability * self.speed * self.stability


def score(check: CheckFacts, lease: LeaseFacts) -> Score:
    """The score of a proxy with these facts; 0 where nothing good is known of it."""
    good, bad = check.passed + lease.ok, check.failed + lease.bad
    latency = check.latency_ms
    return Score(
        reliability=wilson(good, good + bad),
        speed=0.0 if latency is None else HALF_SPEED_MS / (HALF_SPEED_MS + latency),
        stability=1.0 if not latency else max(LEAST_STABILITY, 1.0 - (check.jitter_ms or 0.0) / latency),
    )


def wilson(good: float, total: float) -> float:
    """The lower end of Wilson's score interval at z = 1; 0.0 where there is no evidence."""
    if total < LEAST_EVIDENCE:
        return 0.0
    share, z = min(1.0, good / total), 1.0
    middle = share + z * z / (2 * total)
    spread = z * math.sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    return max(0.0, (middle - spread) / (1 + z * z / total))
