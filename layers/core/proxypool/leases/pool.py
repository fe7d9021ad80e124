"""The lease engine: acquire, renew, release, report, look. Each is one script, one round trip; all time is the server's.

The lease function runs this and nothing else: standard library and redis-py only.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, NoReturn

from proxypool import clock
from proxypool.errors import (
    IdempotencyConflict,
    NotFound,
    Paused,
    PoolEmpty,
    QuotaExceeded,
    Rebuilding,
    Unavailable,
)
from proxypool.leases.cache import Cache
from proxypool.proxies.proxy import Anonymity, Kind, Protocol

MILLION = 1_000_000  # scores are whole millionths in Redis
RETRY_AFTER_SECONDS = 5
JITTER_SECONDS = 5  # refused callers come back spread over this


class Outcome(StrEnum):
    """What a holder found. The proxy's own faults count against it; a target's answer says nothing of the proxy."""

    OK = "ok"
    BLOCKED = "blocked"
    CAPTCHA = "captcha"
    RATE_LIMITED = "rate_limited"
    TIMEOUT = "timeout"
    PROXY_ERROR = "proxy_error"
    CREDENTIALS = "credentials"
    TARGET_ERROR = "target_error"
    SERVER_ERROR = "server_error"


PROXY_FAULTS = frozenset({Outcome.TIMEOUT, Outcome.PROXY_ERROR, Outcome.CREDENTIALS})


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What proxies are wanted; None and () ask for nothing special. `count` is granted as far as there are proxies."""

    ttl_seconds: int
    count: int = 1
    at_least: int = 1
    protocol: Protocol | None = None
    https: bool = False
    country: str | None = None
    anonymity: Anonymity = Anonymity.TRANSPARENT
    min_score: float = 0.0
    max_latency_ms: int = 0  # 0: any
    kind: Kind | None = None
    distinct_exit: bool = False
    exclude: tuple[str, ...] = ()

    @property
    def fingerprint(self) -> str:
        """The same for equal requests: a repeated Idempotency-Key must bring it again."""
        return hashlib.sha256(json.dumps(asdict(self)).encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A live lease. `fence` is the id of the grant's journal entry, two numbers `ms-seq` that only grow."""

    id: str
    proxy_id: str
    fence: str
    granted_at: datetime
    expires_at: datetime
    facts: dict[str, Any]  # proxy_url, protocol, exit_ip, country, anonymity, score

    def json(self) -> dict[str, Any]:
        """As the API shows it; `ttl_seconds` from the grant to the end."""
        return {
            "id": self.id,
            "proxy_id": self.proxy_id,
            **self.facts,
            "fence": self.fence,
            "expires_at": clock.iso(self.expires_at),
            "ttl_seconds": round((self.expires_at - self.granted_at).total_seconds()),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The numbers that bound leases: seconds, leases, journal entries."""

    total_seconds: int
    ttl_seconds: int  # the longest of one grant
    owner_quota: int
    journal_max: int


@dataclass(frozen=True, slots=True)
class Pool:
    """The leases of one pool. All methods raise Unavailable where Redis does not answer in time."""

    cache: Cache
    limits: Limits

    def acquire(self, owner: str, request: Request, *, key: str = "") -> tuple[list[Lease], bool]:
        """New leases, all at once, and False; or those that the same `key` got before, and True.

        Raises PoolEmpty (with counts of why), IdempotencyConflict, QuotaExceeded, NotFound (the repeated request's leases
        are over), Rebuilding or Paused. After Unavailable it is unknown whether leases were granted: repeat with the key.
        """
        limits, base = self.limits, secrets.token_hex(16)
        keep_ms = (limits.total_seconds + 2 * limits.ttl_seconds) * 1000
        asked = hashlib.sha256(f"{owner}\0{key}".encode()).hexdigest() if key else ""
        status, *found = self.cache.run(
            "acquire",
            base, owner, request.count, request.at_least, request.ttl_seconds * 1000, limits.owner_quota,
            limits.journal_max, asked, request.fingerprint, keep_ms, *_filters(request),
        )  # fmt: skip
        if status not in ("ok", "again"):
            _REFUSALS[status](found)
        return [_lease(row) for row in found], status == "again"

    def renew(self, owner: str, lease_id: str, ttl_seconds: int) -> Lease:
        """The lease, which now ends `ttl_seconds` from now: never earlier than before, never past its total (raises NotFound)."""
        row = self.cache.run("renew", lease_id, owner, ttl_seconds * 1000, self.limits.total_seconds * 1000)
        if row is None:
            raise NotFound()
        return _lease(row)

    def release(self, owner: str, lease_id: str, outcome: Outcome | None = None) -> None:
        """Gives the proxy back; raises NotFound for unknown, foreign, expired and released leases alike."""
        self._tell(owner, lease_id, outcome, ends=True)

    def report(self, owner: str, lease_id: str, outcome: Outcome) -> None:
        """Tells an outcome and keeps the lease; raises NotFound as `release` does."""
        self._tell(owner, lease_id, outcome, ends=False)

    def look(self, owner: str, lease_id: str = "") -> list[Lease]:
        """The owner's live leases, soonest end first; with an id that one, or none."""
        found = (_lease(row) for row in self.cache.run("look", owner, lease_id))
        return sorted(found, key=lambda lease: (lease.expires_at, lease.id))

    def _tell(self, owner: str, lease_id: str, outcome: Outcome | None, *, ends: bool) -> None:
        if not self.cache.run("tell", lease_id, owner, outcome or "", "1" if ends else ""):
            raise NotFound()


def _filters(request: Request) -> Sequence[str | int]:
    return (
        request.protocol or ",".join(Protocol),
        request.country or "*",
        request.anonymity.rank,
        "1" if request.https else "",
        request.kind.value[0] if request.kind else "",
        round(request.min_score * MILLION),
        request.max_latency_ms,
        "1" if request.distinct_exit else "",
        *request.exclude,
    )


def _lease(row: Sequence[Any]) -> Lease:
    lease_id, proxy_id, fence, expires, granted, facts = row
    return Lease(
        id=lease_id,
        proxy_id=proxy_id,
        fence=fence,
        granted_at=clock.from_epoch(int(granted) / 1000),
        expires_at=clock.from_epoch(int(expires) / 1000),
        facts=json.loads(facts),
    )


def _later(seconds: float) -> int:
    return round(seconds) + 1 + secrets.randbelow(JITTER_SECONDS)


def _empty(found: Sequence[Any]) -> NoReturn:
    candidates, filtered, stale, leased, wait_ms = found
    counts = {"candidates": candidates, "filtered": filtered, "stale": stale, "leased": leased}
    raise PoolEmpty(reasons=counts, retry_after_seconds=_later(max(0, wait_ms) / 1000))


def _quota(found: Sequence[Any]) -> NoReturn:
    raise QuotaExceeded(f"{found[0]} leases are held", retry_after_seconds=_later(RETRY_AFTER_SECONDS))


def _conflict(_: Sequence[Any]) -> NoReturn:
    raise IdempotencyConflict()


def _ended(_: Sequence[Any]) -> NoReturn:
    raise NotFound()


def _rebuilding(_: Sequence[Any]) -> NoReturn:
    raise Rebuilding(retry_after_seconds=_later(RETRY_AFTER_SECONDS))


def _paused(_: Sequence[Any]) -> NoReturn:
    raise Paused(retry_after_seconds=_later(RETRY_AFTER_SECONDS))


def _journal(_: Sequence[Any]) -> NoReturn:
    raise Unavailable("the journal is full", retry_after_seconds=_later(RETRY_AFTER_SECONDS))


_REFUSALS: dict[str, Callable[[Sequence[Any]], NoReturn]] = {
    "empty": _empty,
    "quota": _quota,
    "conflict": _conflict,
    "ended": _ended,
    "rebuilding": _rebuilding,
    "paused": _paused,
    "journal": _journal,
}
REASONS = tuple(_REFUSALS)
