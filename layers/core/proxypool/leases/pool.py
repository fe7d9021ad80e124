"""The lease engine: acquire, renew, release, report, look. Each is one script, one round trip; all time is the server's.

The lease function runs this and nothing else: only the standard library and `leases.wire`.
"""

from __future__ import annotations

import hashlib
import json
import math
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, NoReturn
from urllib.parse import quote

from proxypool_client.outcome import Outcome

from proxypool import clock
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
from proxypool.leases.cache import ANSWER_SECONDS, Cache
from proxypool.leases.keys import ANY_COUNTRY, ready_set
from proxypool.leases.outcome import MEANINGS, Meaning, ProxyDid, TargetDid, cool_seconds
from proxypool.proxies.proxy import SESSION, Anonymity, Kind, Protocol

BILLION = 1_000_000_000  # scores are whole billionths in Redis
JITTER_SECONDS = 5  # refused callers come back spread over this
RETRIED = 10  # which argument of acquire.lua says that the call may have been made before
PIN_SECONDS = 3_600  # a session's pin slides by this
PIN_TOTAL_SECONDS = 86_400
SECOND = timedelta(seconds=1)
SESSION_PLACE = quote(SESSION, safe="")  # as a gateway's URL has it


class Strategy(StrEnum):
    """Which of the proxies that fit is taken."""

    WEIGHTED = "weighted"  # at random, better ones more often
    BEST = "best"
    LEAST_USED = "least_used"  # nearly: the least used of two windows
    ROUND_ROBIN = "round_robin"
    RANDOM = "random"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What proxies are wanted; None, "" and () ask for nothing special. `count` is granted as far as there are proxies."""

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
        """The same for equal requests: a repeated Idempotency-Key must bring it again."""
        values = [getattr(self, name) for name in self.__slots__]
        return hashlib.sha256(json.dumps(values).encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A live lease. `fence` is the id of the grant's journal entry, two numbers `ms-seq` that only grow."""

    id: str
    proxy_id: str
    fence: str
    granted_at: datetime
    expires_at: datetime
    facts: dict[str, Any]  # proxy_url, protocol, exit_ip, country, anonymity, score
    session_id: str = ""
    moved: bool = False  # the session has left the proxy that it had

    def json(self) -> dict[str, Any]:
        """As the API shows it; `ttl_seconds` from the grant to the end, never more than there are."""
        session = {"session_id": self.session_id, "moved": self.moved} if self.session_id else {}
        return {
            "id": self.id,
            "proxy_id": self.proxy_id,
            **self.facts,
            "fence": self.fence,
            "expires_at": clock.iso(self.expires_at),
            "ttl_seconds": (self.expires_at - self.granted_at) // SECOND,
            **session,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The numbers that bound leases: seconds, leases, journal entries, failures."""

    total_seconds: int
    ttl_seconds: int  # the longest of one grant
    owner_quota: int
    journal_max: int
    breaker_failures: int
    breaker_seconds: int


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
        limits, filters = self.limits, _filters(request)
        keep_ms = (limits.total_seconds + 2 * limits.ttl_seconds) * 1000
        asked = hashlib.sha256(f"{owner}\0{key}".encode()).hexdigest() if key else ""
        lasts = key or request.ttl_seconds > ANSWER_SECONDS  # else the second try would grant a lease that is over anew
        status, *found = self.cache.run_again(
            "acquire", RETRIED if lasts else None,
            secrets.token_hex(16), owner, request.count, request.at_least, request.ttl_seconds * 1000, limits.owner_quota,
            limits.journal_max, asked, request.fingerprint if key else "", keep_ms, "", _memo(request, filters),
            request.session_id, PIN_SECONDS * 1000, PIN_TOTAL_SECONDS * 1000, request.strategy, *filters,
        )  # fmt: skip
        if status not in ("ok", "moved", "again"):
            _REFUSALS[status](found)
        return [_lease(row, owner, moved=status == "moved") for row in found], status == "again"

    def renew(self, owner: str, lease_id: str, ttl_seconds: int) -> Lease:
        """The lease, which now ends `ttl_seconds` from now: never earlier than before, never past its total (raises NotFound)."""
        row = self.cache.run("renew", lease_id, owner, ttl_seconds * 1000, self.limits.total_seconds * 1000)
        if row is None:
            raise NotFound()
        return _lease(row, owner)

    def release(
        self, owner: str, lease_id: str, outcome: Outcome | None = None, *, retry_after: int | None = None
    ) -> None:
        """Gives the proxy back; raises NotFound for unknown, foreign, expired and released leases alike.

        `retry_after` (seconds) is how long the target wants to be left alone by this exit.
        """
        if not all(self._tell(owner, [lease_id], outcome, retry_after, ends=True)):
            raise NotFound()

    def release_many(self, owner: str, lease_ids: Sequence[str], outcome: Outcome | None = None) -> list[str]:
        """Gives back all that are the owner's, in one step; returns those that are not (unknown, foreign, over)."""
        told = self._tell(owner, lease_ids, outcome, None, ends=True)
        return [lease_id for lease_id, known in zip(lease_ids, told, strict=True) if not known]

    def report(self, owner: str, lease_id: str, outcome: Outcome, *, retry_after: int | None = None) -> None:
        """Tells an outcome and keeps the lease; raises NotFound as `release` does."""
        if not all(self._tell(owner, [lease_id], outcome, retry_after, ends=False)):
            raise NotFound()

    def look(self, owner: str, lease_id: str = "") -> list[Lease]:
        """The owner's live leases, soonest end first; with an id that one, or none."""
        found = (_lease(row, owner) for row in self.cache.run("look", owner, lease_id))
        return sorted(found, key=lambda lease: (lease.expires_at, lease.id))

    def _tell(
        self, owner: str, lease_ids: Sequence[str], outcome: Outcome | None, retry_after: int | None, *, ends: bool
    ) -> list[int]:
        means = MEANINGS[outcome] if outcome else _NOTHING
        cool_ms = cool_seconds(outcome, retry_after) * 1000 if outcome else 0
        told: list[int] = self.cache.run(
            "tell", owner, outcome or "", "1" if ends else "", cool_ms, means.proxy, means.target,
            self.limits.breaker_failures, self.limits.breaker_seconds * 1000, *lease_ids,
        )  # fmt: skip
        return told


_NOTHING = Meaning(0, ProxyDid.UNKNOWN, TargetDid.UNKNOWN)


def session_name(owner: str, pinned: str) -> str:
    """What stands for an owner's session in a gateway's credentials: the same for all its leases until it moves, for nobody else's.

    `pinned` is the session as a lease's record has it, with the instant since which it stays with its proxy.
    """
    return hashlib.sha256(f"{owner}\0{pinned}".encode()).hexdigest()[:16]


def _filters(request: Request) -> Sequence[str | int]:
    return (
        _sets(request),
        "1" if request.https else "",
        request.kind.value[0] if request.kind else "",
        round(request.min_score * BILLION),
        request.max_latency_ms,
        request.region,
        "1" if request.ipv4_only else "",
        request.source,
        "1" if request.distinct_exit else "",
        request.target,
        len(request.tags),
        *request.tags,
        *request.exclude,
    )


def _sets(request: Request) -> str:
    """The ready sets that hold what is wanted."""
    protocols, ranks = (
        (request.protocol,) if request.protocol else Protocol,
        range(request.anonymity.rank, len(Anonymity)),
    )
    return " ".join(
        ready_set(protocol, request.country or ANY_COUNTRY, rank) for protocol in protocols for rank in ranks
    )


def _memo(request: Request, filters: Sequence[str | int]) -> str:
    """Equal for requests of which one refusal answers the other; "" for a session's, which has its own proxy."""
    if request.session_id:
        return ""
    text = "|".join(map(str, (request.at_least, *filters)))
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


def _lease(row: Sequence[Any], owner: str, *, moved: bool = False) -> Lease:
    lease_id, proxy_id, fence, expires, granted, text, pinned = row
    facts = json.loads(text)
    if SESSION_PLACE in facts["proxy_url"]:
        name = session_name(owner, pinned) if pinned else lease_id.replace(".", "")
        facts["proxy_url"] = facts["proxy_url"].replace(SESSION_PLACE, name)
    return Lease(
        id=lease_id,
        proxy_id=proxy_id,
        fence=fence,
        granted_at=clock.from_epoch(int(granted) / 1000),
        expires_at=clock.from_epoch(int(expires) / 1000),
        facts=facts,
        session_id=pinned.partition("~")[0],
        moved=moved,
    )


def _later(seconds: float) -> int:
    """Whole seconds until a caller may come again: never too early, spread, at most 30 (where the errors cap it)."""
    spread = secrets.randbelow(JITTER_SECONDS)
    return min(math.ceil(seconds), MAX_RETRY_AFTER_SECONDS - JITTER_SECONDS) + 1 + spread


def _empty(found: Sequence[Any]) -> NoReturn:
    wait_ms, reasons = found
    counts = dict(zip(reasons[::2], reasons[1::2], strict=True))
    raise PoolEmpty(reasons=counts, retry_after_seconds=_later(wait_ms / 1000))


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
