"""The lease engine: acquire, renew, release, report, get, list. Each is one script and one round trip, on the server's clock.

The lease function runs this module; it imports the standard library only, for a short cold start.
"""

from __future__ import annotations

import hashlib
import json
import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, ClassVar, NoReturn
from urllib.parse import quote

from proxypool_client.outcome import Outcome

from proxypool.errors import (
    MAX_RETRY_AFTER_SECONDS,
    RETRY_AFTER_SECONDS,
    IdempotencyConflict,
    NotFound,
    Paused,
    PoolEmpty,
    QuotaExceeded,
    Rebuilding,
    Unavailable,
)
from proxypool.http.codec import Meta
from proxypool.http.fields import to_arguments
from proxypool.http.operation import BOOLEAN, FRACTION, INTEGER, Schema
from proxypool.leases.filters import ready_sets, request_needs
from proxypool.leases.outcome import OUTCOME_EFFECTS, Effect, ProxyResult, TargetResult, cool_seconds
from proxypool.leases.redis.cache import MAX_CALL_SECONDS, Cache
from proxypool.leases.redis.keys import SCRIPT_ARGUMENTS
from proxypool.proxies.proxy import SESSION_PLACEHOLDER, Anonymity, Kind, Protocol

BILLION = 1_000_000_000  # scores are whole billionths in Redis
JITTER_SECONDS = 5  # added to Retry-After at random, so that refused callers do not return all at once
REPEATED_INDEX = SCRIPT_ARGUMENTS["acquire"].index("repeated")
PIN_SECONDS = 3_600  # a session stays with its proxy for this long after its last acquire
PIN_TOTAL_SECONDS = 86_400  # and for this long after its first
SECOND = timedelta(seconds=1)
SESSION_PLACE = quote(SESSION_PLACEHOLDER, safe="")  # as written in a gateway's URL


class Strategy(StrEnum):
    """The order in which proxies are selected among those that fit."""

    WEIGHTED = "weighted"  # random, with a probability that grows with the score
    BEST = "best"
    LEAST_USED = "least_used"  # approximately: the least used one of two windows
    ROUND_ROBIN = "round_robin"
    RANDOM = "random"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Request:
    """A request for leases: filters (filters.py; None, False, 0, "" and () do not filter) and how many.

    `count` leases are granted, or fewer if fewer proxies are free, but never less than `at_least`.
    """

    ttl_seconds: int
    count: int = 1
    at_least: int = 1
    strategy: Strategy = Strategy.WEIGHTED
    protocol: Protocol | None = None
    https: bool = False
    country: str | None = None
    region: str = ""
    anonymity: Anonymity = Anonymity.TRANSPARENT
    min_score: float = 0.0
    max_latency_ms: int = 0  # 0: any
    kind: Kind | None = None
    ipv4_only: bool = False  # of the exit
    tags: tuple[str, ...] = ()  # all of them
    source: str = ""
    distinct_exit: bool = False
    target: str = ""  # host name
    session_id: str = ""
    exclude: tuple[str, ...] = ()

    @property
    def fingerprint(self) -> str:
        """Equal for equal requests: an Idempotency-Key must not be repeated with another request."""
        values = [getattr(self, name) for name in self.__slots__]
        return hashlib.sha256(json.dumps(values).encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Lease:
    """A live lease. `fence` is the id of the grant's journal entry, two numbers `ms-seq` that always increase."""

    # fmt: off
    id: str = field(metadata=Meta(shown={}))
    proxy_id: str = field(metadata=Meta(shown={}))
    proxy_url: str = field(metadata=Meta(shown={"description": "With the proxy's credentials, percent-encoded"}))
    protocol: Protocol = field(metadata=Meta(shown={}))
    exit_ip: str | None = field(default=None, metadata=Meta(shown={}))
    country: str | None = field(default=None, metadata=Meta(shown={}))
    anonymity: Anonymity | None = field(default=None, metadata=Meta(shown={}))
    score: float = field(metadata=Meta(shown=FRACTION))
    fence: str = field(metadata=Meta(shown={
        "description": "`ms-seq`: two numbers that only grow for one proxy", "pattern": "^[0-9]+-[0-9]+$",
    }))
    granted_at: datetime
    expires_at: datetime = field(metadata=Meta(shown={}))
    session_id: str = field(default="", metadata=Meta(
        optional=True, shown={"description": "Only where the lease is a session's"},
    ))
    moved: bool | None = field(default=None, metadata=Meta(optional=True, shown={**BOOLEAN, "description":
        "Likewise: whether the session has just left the proxy that it had, or its name there",
    }))
    # fmt: on

    SHOWN: ClassVar[Mapping[str, Schema]] = {"ttl_seconds": {**INTEGER, "description": "From the grant to the end"}}

    @property
    def ttl_seconds(self) -> int:
        """Whole seconds from the grant to the end, rounded down."""
        return (self.expires_at - self.granted_at) // SECOND


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Limits:
    """The limits of leases: seconds, leases per owner, journal entries, failures."""

    total_seconds: int
    ttl_seconds: int  # the longest of one grant
    owner_quota: int
    journal_max: int
    breaker_failures: int
    breaker_seconds: int


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Pool:
    """The leases of one pool. All methods raise Unavailable if Redis does not answer in time."""

    cache: Cache
    limits: Limits

    def acquire(self, owner: str, request: Request, *, key: str = "") -> tuple[list[Lease], bool]:
        """Grants leases in one step: (leases, False); or (the leases of an earlier request with this `key`, True).

        Raises PoolEmpty (with the number of proxies per reason), IdempotencyConflict, QuotaExceeded, NotFound (the leases of
        the repeated request are over), Rebuilding or Paused. After Unavailable leases may have been granted: repeat with the key.
        """
        limits, filters = self.limits, _filters(request)
        keep_ms = (limits.total_seconds + 2 * limits.ttl_seconds) * 1000
        request_key = hashlib.sha256(f"{owner}\0{key}".encode()).hexdigest() if key else ""
        # A shorter lease may have expired before the second try, which would then grant another one.
        is_repeatable = key or request.ttl_seconds > MAX_CALL_SECONDS
        status, *found = self.cache.run_again(
            "acquire", REPEATED_INDEX if is_repeatable else None,
            secrets.token_hex(16), owner, request.count, request.at_least, request.ttl_seconds * 1000, limits.owner_quota,
            limits.journal_max, request_key, request.fingerprint if key else "", keep_ms, "", _memo(request, filters),
            request.session_id, PIN_SECONDS * 1000, PIN_TOTAL_SECONDS * 1000, request.strategy, *filters,
        )  # fmt: skip
        if status not in ("ok", "moved", "again"):
            _REFUSALS[status](found)
        return [_lease(row, owner, moved=status == "moved") for row in found], status == "again"

    def renew(self, owner: str, lease_id: str, ttl_seconds: int) -> Lease:
        """Extends the lease to `ttl_seconds` from now: never to an earlier end, never past its total. Raises NotFound."""
        row = self.cache.run("renew", lease_id, owner, ttl_seconds * 1000, self.limits.total_seconds * 1000)
        if row is None:
            raise NotFound()
        return _lease(row, owner)

    def release(
        self, owner: str, lease_id: str, outcome: Outcome | None = None, *, retry_after: int | None = None
    ) -> None:
        """Ends the lease; raises NotFound if it is unknown, another owner's, expired or released.

        `retry_after` (seconds) is the target's Retry-After: the exit is not used for the target for that long.
        """
        if not all(self._report(owner, [lease_id], outcome, retry_after, ends=True)):
            raise NotFound()

    def release_many(self, owner: str, lease_ids: Sequence[str], outcome: Outcome | None = None) -> list[str]:
        """Ends all leases of the owner in one step; returns the ids that are unknown, another owner's, expired or released."""
        reported = self._report(owner, lease_ids, outcome, None, ends=True)
        return [lease_id for lease_id, is_live in zip(lease_ids, reported, strict=True) if not is_live]

    def report(self, owner: str, lease_id: str, outcome: Outcome, *, retry_after: int | None = None) -> None:
        """Reports an outcome and keeps the lease; raises NotFound like `release`."""
        if not all(self._report(owner, [lease_id], outcome, retry_after, ends=False)):
            raise NotFound()

    def get(self, owner: str, lease_id: str) -> Lease:
        """A live lease of the owner; raises NotFound like `release`."""
        rows = self.cache.run("list", owner, lease_id)
        if not rows:
            raise NotFound()
        return _lease(rows[0], owner)

    def list_leases(self, owner: str) -> list[Lease]:
        """The owner's live leases, soonest end first."""
        leases = (_lease(row, owner) for row in self.cache.run("list", owner, ""))
        return sorted(leases, key=lambda lease: (lease.expires_at, lease.id))

    def _report(
        self, owner: str, lease_ids: Sequence[str], outcome: Outcome | None, retry_after: int | None, *, ends: bool
    ) -> list[int]:
        effect = OUTCOME_EFFECTS[outcome] if outcome else _NO_EFFECT
        cool_ms = cool_seconds(outcome, retry_after) * 1000 if outcome else 0
        reported: list[int] = self.cache.run(
            "report", owner, outcome or "", "1" if ends else "", cool_ms, effect.proxy, effect.target,
            self.limits.breaker_failures, self.limits.breaker_seconds * 1000, *lease_ids,
        )  # fmt: skip
        return reported


_NO_EFFECT = Effect(0, ProxyResult.UNKNOWN, TargetResult.UNKNOWN)


def session_name(owner: str, pinned: str) -> str:
    """The name of an owner's session in a gateway's credentials: equal for all its leases until it moves, and unique to it.

    `pinned` is the session in a lease's record, `id~since` with the instant (ms) of its pin.
    """
    return hashlib.sha256(f"{owner}\0{pinned}".encode()).hexdigest()[:16]


def _filters(request: Request) -> Sequence[str | int]:
    conditions = request_needs(request)
    return (
        " ".join(ready_sets(request.protocol, request.country, request.anonymity)),
        round(request.min_score * BILLION),
        "1" if request.distinct_exit else "",
        request.target,
        len(conditions),
        *conditions,
        *request.exclude,
    )


def _memo(request: Request, filters: Sequence[str | int]) -> str:
    """Equal for requests that are refused for the same reason; "" for a session, which has its own proxy."""
    if request.session_id:
        return ""
    text = "|".join(map(str, (request.at_least, *filters)))
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


def _lease(row: Sequence[Any], owner: str, *, moved: bool = False) -> Lease:
    lease_id, proxy_id, fence, expires, granted, text, pinned = row
    values = {**json.loads(text), "id": lease_id, "proxy_id": proxy_id, "fence": fence}
    if SESSION_PLACE in values["proxy_url"]:
        name = session_name(owner, pinned) if pinned else lease_id.replace(".", "")
        values["proxy_url"] = values["proxy_url"].replace(SESSION_PLACE, name)
    session = {"session_id": pinned.partition("~")[0], "moved": moved} if pinned else {}
    instants = {"granted_at": int(granted) / 1000, "expires_at": int(expires) / 1000}
    return Lease(**to_arguments(Lease, {**values, **session, **instants}))


def _retry_after(seconds: float) -> int:
    """A Retry-After in whole seconds: rounded up, with jitter, at most MAX_RETRY_AFTER_SECONDS."""
    spread = secrets.randbelow(JITTER_SECONDS)
    return min(math.ceil(seconds), MAX_RETRY_AFTER_SECONDS - JITTER_SECONDS) + 1 + spread


def _empty(found: Sequence[Any]) -> NoReturn:
    wait_ms, reasons = found
    counts = dict(zip(reasons[::2], reasons[1::2], strict=True))
    raise PoolEmpty(reasons=counts, retry_after_seconds=_retry_after(wait_ms / 1000))


def _quota(found: Sequence[Any]) -> NoReturn:
    raise QuotaExceeded(f"{found[0]} leases are held", retry_after_seconds=_retry_after(RETRY_AFTER_SECONDS))


def _conflict(_: Sequence[Any]) -> NoReturn:
    raise IdempotencyConflict()


def _ended(_: Sequence[Any]) -> NoReturn:
    raise NotFound()


def _rebuilding(_: Sequence[Any]) -> NoReturn:
    raise Rebuilding(retry_after_seconds=_retry_after(RETRY_AFTER_SECONDS))


def _paused(_: Sequence[Any]) -> NoReturn:
    raise Paused(retry_after_seconds=_retry_after(RETRY_AFTER_SECONDS))


def _journal(_: Sequence[Any]) -> NoReturn:
    raise Unavailable("the journal is full", retry_after_seconds=_retry_after(RETRY_AFTER_SECONDS))


_REFUSALS: dict[str, Callable[[Sequence[Any]], NoReturn]] = {
    "empty": _empty,
    "quota": _quota,
    "conflict": _conflict,
    "ended": _ended,
    "rebuilding": _rebuilding,
    "paused": _paused,
    "journal": _journal,
}
REFUSAL_REASONS = tuple(_REFUSALS)
