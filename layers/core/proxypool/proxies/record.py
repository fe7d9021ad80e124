"""The record of a proxy: a row of the proxies table as values.

Two writers update a row without conflict: validate_proxy owns `check`, expire_leases owns `lease`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final

from proxypool import clock
from proxypool.http.codec import TEXT_OR_NULL, Codec, Meta
from proxypool.http.operation import INSTANT, TEXT, Schema, map_, object_, one_of
from proxypool.proxies.proxy import Anonymity, Kind, Protocol, Proxy, Status

DUE_SHARDS = 16
MAX_SLOTS = 10_000

FRESH_INTERVALS = 3  # a check is fresh for three of the proxy's check intervals


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetFact:
    """The last verdict of a target rule for this proxy: ok, banned or failed."""

    verdict: str
    at: datetime


def _load_targets(stored: Mapping[str, str]) -> dict[str, TargetFact]:
    parts = {host: text.partition(" ") for host, text in dict(stored).items()}
    return {host: TargetFact(verdict=one[0], at=clock.from_epoch(int(one[2]))) for host, one in parts.items()}


def _store_targets(targets: Mapping[str, TargetFact]) -> dict[str, str]:
    """Each as "<verdict> <epoch seconds>"."""
    return {host: f"{fact.verdict} {clock.epoch(fact.at)}" for host, fact in targets.items()}


def _show_targets(targets: Mapping[str, TargetFact]) -> dict[str, Any]:
    return {host: {"verdict": fact.verdict, "at": clock.iso(fact.at)} for host, fact in targets.items()}


_TARGETS: Final = Codec(dict, map_(object_(verdict=TEXT, at=INSTANT)), _show_targets, _store_targets, _load_targets)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckFacts:
    """Accumulated check results; written by validate_proxy only. Attribute names are short: an item stays under 1 KB."""

    # fmt: off
    passed: float = field(default=0.0, metadata=Meta(stored="p"))  # number of checks, decayed by age
    failed: float = field(default=0.0, metadata=Meta(stored="f"))
    count: int = field(default=0, metadata=Meta(stored="n"))  # all checks ever
    unpruned: int = field(default=0, metadata=Meta(stored="u"))  # check records since the last visit of prune_old_checks
    failures_in_row: int = field(default=0, metadata=Meta(stored="r"))
    latency_ms: float | None = field(default=None, metadata=Meta(stored="l", shown={}))  # smoothed, of passed checks
    jitter_ms: float | None = field(default=None, metadata=Meta(stored="j"))  # smoothed deviation from it
    exit_ip: str | None = field(default=None, metadata=Meta(stored="x", shown={}))
    exits: tuple[str, ...] = field(default=(), metadata=Meta(  # of a rotating proxy
        stored="g", shown={"description": "Others that were seen lately"},
    ))
    country: str | None = field(default=None, metadata=Meta(stored="c", shown={}))  # ISO 3166 alpha-2, lower case
    region: str | None = field(default=None, metadata=Meta(stored="e", shown={}))  # subdivision of the country, lower case
    asn: int | None = field(default=None, metadata=Meta(stored="w", shown={}))
    anonymity: Anonymity | None = field(default=None, metadata=Meta(stored="a", shown={}))
    anonymity_basis: str = field(default="", metadata=Meta(  # kind of judge
        stored="v", shown={"description": "Which judge said so"}, codec=TEXT_OR_NULL,
    ))
    https: bool = field(default=False, metadata=Meta(stored="h", shown={}))  # carries HTTPS with a verified certificate
    tampered: bool = field(default=False, metadata=Meta(stored="t", shown={}))  # alters content: never leased
    signed: bool = field(default=False, metadata=Meta(stored="s", shown={}))  # the judge's answer was signed
    reason: str = field(default="", metadata=Meta(
        stored="y", shown={"description": "Of the last failed check; empty after a pass"},
    ))
    blame: str = field(default="", metadata=Meta(stored="b", shown={}))  # party at fault for that failure
    interval_seconds: int = field(default=0, metadata=Meta(stored="i"))  # interval to the next check
    last_success_at: datetime | None = field(default=None, metadata=Meta(stored="o"))
    checks_since_full: int = field(default=0, metadata=Meta(stored="m"))  # since the last with HTTPS, integrity, targets
    targets: Mapping[str, TargetFact] = field(default_factory=dict, metadata=Meta(
        stored="k", shown={"description": "What the target rules found, by host"}, codec=_TARGETS,
    ))
    # fmt: on


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseFacts:
    """Accumulated lease outcomes; written by expire_leases only, from the journal."""

    ok: float = field(default=0.0, metadata=Meta(stored="o"))
    bad: float = field(default=0.0, metadata=Meta(stored="b"))  # failures that are the proxy's fault
    granted: int = field(default=0, metadata=Meta(stored="g"))
    journal_id: str = field(default="", metadata=Meta(stored=""))  # of the last journal entry that is included


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyRecord:
    """One row of the proxies table. `version` grows with each write; `claim` is 0 or epoch milliseconds."""

    # fmt: off
    proxy: Proxy = field(metadata=Meta(  # its row has five attributes
        stored="", shown={"description": "Its URL, the password hidden"}, codec=Codec(str, TEXT, show=str),
    ))
    status: Status = field(default=Status.UNCHECKED, metadata=Meta(stored="st", shown={}))
    kind: Kind = field(default=Kind.UNKNOWN, metadata=Meta(stored="ki", shown={}))
    tags: frozenset[str] = field(default=frozenset(), metadata=Meta(stored="tg", shown={}))
    sources: frozenset[str] = field(default=frozenset(), metadata=Meta(stored="so", shown={}))
    allow_private: bool = field(default=False, metadata=Meta(stored="ap"))  # its source permits private addresses
    first_seen_at: datetime = field(metadata=Meta(stored="fs", shown={}))
    last_seen_at: datetime = field(metadata=Meta(stored="ls", shown={}))
    last_checked_at: datetime | None = field(default=None, metadata=Meta(stored="lc", shown={}))
    next_check_at: datetime | None = field(default=None, metadata=Meta(shown={}))
    check: CheckFacts = field(default_factory=CheckFacts, metadata=Meta(stored="ck", shown={}))
    lease: LeaseFacts = field(default_factory=LeaseFacts, metadata=Meta(stored="le"))
    slots: int = field(default=1, metadata=Meta(
        stored="sl", shown={"description": "How many may hold it at once: more than one of a gateway"},
    ))
    claim: int = 0
    version: int
    # fmt: on

    SHOWN: ClassVar[Mapping[str, Schema]] = {"id": TEXT, "protocol": one_of(*Protocol)}

    @property
    def id(self) -> str:
        """The proxy's id."""
        return self.proxy.id

    @property
    def protocol(self) -> Protocol:
        """The proxy's protocol."""
        return self.proxy.protocol


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
