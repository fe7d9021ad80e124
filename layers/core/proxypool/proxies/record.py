"""What the pool knows of one proxy: the row of the proxies table as values. The table's codec is in `table.py`.

Two writers share a row without touching each other's part: validate_proxy owns `check`, expire_leases owns `lease`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from proxypool.proxies.proxy import Anonymity, Kind, Proxy, Status

DUE_SHARDS = 16
MAX_SLOTS = 10_000

CADENCES_FRESH = 3  # a check is fresh for three of its proxy's own intervals


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetFact:
    """How a target answered this proxy the last time: ok, banned or failed."""

    verdict: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckFacts:
    """What checks have found so far; written by validate_proxy alone."""

    passed: float = 0.0  # checks, decayed by age
    failed: float = 0.0
    count: int = 0  # all checks ever
    unpruned: int = 0  # check records that prune_old_checks has not visited
    failures_in_row: int = 0
    latency_ms: float | None = None  # smoothed, of passed checks
    jitter_ms: float | None = None  # smoothed deviation from it
    exit_ip: str | None = None
    exits: tuple[str, ...] = ()  # others that were seen lately: some proxies leave by many addresses
    country: str | None = None  # ISO 3166 alpha-2, lower case
    region: str | None = None  # the exit's subdivision in its country, lower case, as the judge tells it
    asn: int | None = None
    anonymity: Anonymity | None = None
    basis: str = ""  # which judge the anonymity rests on
    https: bool = False  # carried HTTPS with a verified certificate
    tampered: bool = False  # altered what it carried: stays in the record, is never leased
    signed: bool = False  # the verdict rests on a judge that signs
    reason: str = ""  # of the last failure; empty after a pass
    blame: str = ""  # whose fault that was
    interval_seconds: int = 0  # its own cadence: how long until the next check
    last_success_at: datetime | None = None
    light: int = 0  # checks since HTTPS, integrity and targets were asked
    targets: Mapping[str, TargetFact] = field(default_factory=dict)  # by host, for the operator's rules


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseFacts:
    """What holders reported; written by expire_leases alone, from the journal."""

    ok: float = 0.0
    bad: float = 0.0  # outcomes that are the proxy's fault
    granted: int = 0
    journal_id: str = ""  # the last journal entry that is folded in


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyRecord:
    """One row of the proxies table. `version` grows with every write by any writer; `claim` is 0 or epoch ms."""

    proxy: Proxy
    status: Status = Status.UNCHECKED
    kind: Kind = Kind.UNKNOWN
    tags: frozenset[str] = frozenset()
    sources: frozenset[str] = frozenset()
    allow_private: bool = False  # its source says that it may stand in a private network
    first_seen_at: datetime
    last_seen_at: datetime
    last_checked_at: datetime | None = None
    next_check_at: datetime | None = None
    check: CheckFacts = field(default_factory=CheckFacts)
    lease: LeaseFacts = field(default_factory=LeaseFacts)
    slots: int = 1  # holders at once; a gateway has many
    claim: int = 0
    version: int

    @property
    def id(self) -> str:
        """The proxy's id."""
        return self.proxy.id


def due_shard(status: Status, proxy_id: str) -> str | None:
    """The partition of the index `due` that this proxy stands in, e.g. active#07; None for retired ones."""
    if status is Status.RETIRED:
        return None
    return f"{status}#{int(proxy_id[:8], 16) % DUE_SHARDS:02d}"


def due_shards(status: Status) -> list[str]:
    """All partitions of the index `due` for one status."""
    return [f"{status}#{shard:02d}" for shard in range(DUE_SHARDS)]


def fresh_until(record: ProxyRecord, max_age_seconds: int) -> datetime | None:
    """Until when the last check holds for leasing: three of the proxy's own intervals, `max_age_seconds` at least; None where
    there was no check.
    """
    if record.last_checked_at is None:
        return None
    age = max(max_age_seconds, CADENCES_FRESH * record.check.interval_seconds)
    return record.last_checked_at + timedelta(seconds=age)
