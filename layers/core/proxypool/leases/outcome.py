"""What a holder found, and what follows from it: for the pair of exit and target, for the proxy, for the target. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from proxypool_client.outcome import Outcome

MAX_COOL_SECONDS: Final = 86_400  # whatever a target asks for


class ProxyDid(StrEnum):
    """What an outcome says of the proxy, as tell.lua takes it."""

    FAILED = "f"
    CARRIED = "p"
    UNKNOWN = ""


class TargetDid(StrEnum):
    """What an outcome says of the target, as tell.lua takes it."""

    FAILED = "f"
    ANSWERED = "a"
    UNKNOWN = ""


@dataclass(frozen=True, slots=True)
class Meaning:
    """What follows from an outcome; the pair of exit and target is left alone for `cool_seconds`."""

    cool_seconds: int
    proxy: ProxyDid
    target: TargetDid


MEANINGS: Final = {
    Outcome.OK: Meaning(0, ProxyDid.CARRIED, TargetDid.ANSWERED),
    Outcome.BLOCKED: Meaning(600, ProxyDid.CARRIED, TargetDid.ANSWERED),
    Outcome.CAPTCHA: Meaning(600, ProxyDid.CARRIED, TargetDid.ANSWERED),
    Outcome.RATE_LIMITED: Meaning(60, ProxyDid.CARRIED, TargetDid.ANSWERED),
    Outcome.TIMEOUT: Meaning(
        30, ProxyDid.FAILED, TargetDid.FAILED
    ),  # whose fault it is, the target's breaker finds out
    Outcome.PROXY_ERROR: Meaning(30, ProxyDid.FAILED, TargetDid.UNKNOWN),
    Outcome.CREDENTIALS: Meaning(0, ProxyDid.FAILED, TargetDid.UNKNOWN),
    Outcome.TARGET_ERROR: Meaning(0, ProxyDid.UNKNOWN, TargetDid.FAILED),
    Outcome.SERVER_ERROR: Meaning(0, ProxyDid.CARRIED, TargetDid.FAILED),
}
PROXY_FAULTS: Final = frozenset(outcome for outcome, meaning in MEANINGS.items() if meaning.proxy is ProxyDid.FAILED)


def cool_seconds(outcome: Outcome, retry_after_seconds: int | None) -> int:
    """How long (exit, target) cools: what the target itself asked for (Retry-After), else what the outcome is worth."""
    if retry_after_seconds is None:
        return MEANINGS[outcome].cool_seconds
    return max(0, min(retry_after_seconds, MAX_COOL_SECONDS))
