"""The effect of each outcome on the pair of exit and target, on the proxy and on the target. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from proxypool_client.outcome import Outcome

MAX_COOL_SECONDS: Final = 86_400  # also if a target's Retry-After is longer


class ProxyResult(StrEnum):
    """What an outcome says about the proxy; an argument of report.lua."""

    FAILED = "f"
    CARRIED = "p"
    UNKNOWN = ""


class TargetResult(StrEnum):
    """What an outcome says about the target; an argument of report.lua."""

    FAILED = "f"
    ANSWERED = "a"
    UNKNOWN = ""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Effect:
    """The effect of an outcome; the exit is not used for the target for `cool_seconds`."""

    cool_seconds: int
    proxy: ProxyResult
    target: TargetResult


OUTCOME_EFFECTS: Final = {
    Outcome.OK: Effect(0, ProxyResult.CARRIED, TargetResult.ANSWERED),
    Outcome.BLOCKED: Effect(600, ProxyResult.CARRIED, TargetResult.ANSWERED),
    Outcome.CAPTCHA: Effect(600, ProxyResult.CARRIED, TargetResult.ANSWERED),
    Outcome.RATE_LIMITED: Effect(60, ProxyResult.CARRIED, TargetResult.ANSWERED),
    Outcome.TIMEOUT: Effect(
        30, ProxyResult.FAILED, TargetResult.FAILED
    ),  # the target's breaker decides whose fault it is
    Outcome.PROXY_ERROR: Effect(30, ProxyResult.FAILED, TargetResult.UNKNOWN),
    Outcome.CREDENTIALS: Effect(0, ProxyResult.FAILED, TargetResult.UNKNOWN),
    Outcome.TARGET_ERROR: Effect(0, ProxyResult.UNKNOWN, TargetResult.FAILED),
    Outcome.SERVER_ERROR: Effect(0, ProxyResult.CARRIED, TargetResult.FAILED),
}
PROXY_FAULTS: Final = frozenset(
    outcome for outcome, effect in OUTCOME_EFFECTS.items() if effect.proxy is ProxyResult.FAILED
)


def cool_seconds(outcome: Outcome, retry_after_seconds: int | None) -> int:
    """How long the exit is not used for the target: its Retry-After, or the default of the outcome."""
    if retry_after_seconds is None:
        return OUTCOME_EFFECTS[outcome].cool_seconds
    return max(0, min(retry_after_seconds, MAX_COOL_SECONDS))
