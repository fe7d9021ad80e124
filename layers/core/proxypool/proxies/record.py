"""The record of a proxy: a row of the proxies table as values. The codec is in `table.py`.

Two writers update a row without conflict: validate_proxy owns `check`, expire_leases owns `lease`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from proxypool.proxies.proxy import Anonymity, Kind, Proxy, Status

DUE_SHARDS = 16
MAX_SLOTS = 10_000

FRESH_INTERVALS = 3  # a check is fresh for three of the proxy's check intervals


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetFact:
    """The last verdict of a target rule for this proxy: ok, banned or failed."""

    verdict: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckFacts:
    """Accumulated check results; written by validate_proxy only."""

    passed: float = 0.0  # number of checks, decayed by age
    failed: float = 0.0
    count: int = 0  # all checks ever
    unpruned: int = 0  # check records since the last visit of prune_old_checks
    failures_in_row: int = 0
    latency_ms: float | None = None  # smoothed, of passed checks
    jitter_ms: float | None = None  # smoothed deviation from it
    exit_ip: str | None = None
    exits: tuple[str, ...] = ()  # other recent exit IPs, of a rotating proxy
    country: str | None = None  # ISO 3166 alpha-2, lower case
    region: str | None = None  # subdivision of the country, lower case
    asn: int | None = None
    anonymity: Anonymity | None = None
    basis: str = ""  # kind of judge behind `anonymity`
    https: bool = False  # carries HTTPS with a verified certificate
    tampered: bool = False  # alters content: never leased
    signed: bool = False  # the judge's answer was signed
    reason: str = ""  # of the last failure; empty after a pass
    blame: str = ""  # party at fault for that failure
    interval_seconds: int = 0  # interval to the next check
    last_success_at: datetime | None = None
    checks_since_full: int = 0  # checks without HTTPS, integrity and targets since the last full one
    targets: Mapping[str, TargetFact] = field(default_factory=dict)  # by host, for the target rules


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseFacts:
    """Accumulated lease outcomes; written by expire_leases only, from the journal."""

    ok: float = 0.0
    bad: float = 0.0  # failures that are the proxy's fault
    granted: int = 0
    journal_id: str = ""  # of the last journal entry that is included


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyRecord:
    """One row of the proxies table. `version` grows with each write; `claim` is 0 or epoch milliseconds."""

    proxy: Proxy
    status: Status = Status.UNCHECKED
    kind: Kind = Kind.UNKNOWN
    tags: frozenset[str] = frozenset()
    sources: frozenset[str] = frozenset()
    allow_private: bool = False  # its source permits private addresses
    first_seen_at: datetime
    last_seen_at: datetime
    last_checked_at: datetime | None = None
    next_check_at: datetime | None = None
    check: CheckFacts = field(default_factory=CheckFacts)
    lease: LeaseFacts = field(default_factory=LeaseFacts)
    slots: int = 1  # concurrent leases; more than 1 for a gateway
    claim: int = 0
    version: int

    @property
    def id(self) -> str:
        """The proxy's id."""
        return self.proxy.id


def due_shard(status: Status, proxy_id: str) -> str | None:
    """The partition of the index `due` for this proxy, e.g. active#07; None for a retired one."""
    if status is Status.RETIRED:
        return None
    return f"{status}#{int(proxy_id[:8], 16) % DUE_SHARDS:02d}"


def due_shards(status: Status) -> list[str]:
    """All partitions of the index `due` for one status."""
    return [f"{status}#{shard:02d}" for shard in range(DUE_SHARDS)]


def fresh_until(record: ProxyRecord, max_age_seconds: int) -> datetime | None:
    """The instant up to which the last check qualifies for leases; None if there was no check.

    That is three of the proxy's check intervals after the check, at least `max_age_seconds`.
    """
    if record.last_checked_at is None:
        return None
    age = max(max_age_seconds, FRESH_INTERVALS * record.check.interval_seconds)
    return record.last_checked_at + timedelta(seconds=age)
