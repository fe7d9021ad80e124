"""What the scripts wrote down, read and folded: per lease into its ledger row, per proxy into its evidence. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from proxypool_client.outcome import Outcome

from proxypool.leases.outcome import PROXY_FAULTS
from proxypool.proxies.record import LeaseFacts

MEMORY = 0.98  # what an older outcome weighs after one more: about fifty are remembered


class Kind(StrEnum):
    """What happened to a lease."""

    GRANT = "g"
    RENEWAL = "k"
    OUTCOME = "o"
    RELEASE = "r"
    EXPIRY = "x"
    EXCUSE = "u"  # a proxy's failure was the target's: it is taken back


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One thing that happened to one lease. `jid` is the journal's id, padded so that text order is its order."""

    jid: str
    kind: Kind
    lease_id: str
    owner: str
    proxy_id: str
    target: str
    granted_ms: int
    expires_ms: int
    outcome: str = ""

    @property
    def at_ms(self) -> int:
        """When it happened, by the server's clock."""
        return int(self.jid.partition("-")[0])

    @property
    def is_end(self) -> bool:
        """Whether the lease is over with it."""
        return self.kind in (Kind.RELEASE, Kind.EXPIRY)


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRow:
    """One lease as the ledger keeps it; `ended` is "" (open), "released", "expired" or "lost" (with the cache)."""

    lease_id: str
    owner: str
    proxy_id: str
    target: str = ""
    granted_ms: int
    expires_ms: int
    outcome: str = ""
    ended: str = ""
    ended_ms: int = 0


def read(found: Iterable[Sequence[Any]]) -> tuple[list[Entry], int]:
    """The entries of a stretch of the journal, as XRANGE tells it, and how many of them cannot be read.

    Each is an id and a flat list of kinds and texts. A grant of several leases is several entries.
    """
    entries: list[Entry] = []
    unreadable = 0
    for stream_id, fields in found:
        for name, text in zip(fields[::2], fields[1::2], strict=True):
            try:
                at, kind = jid(stream_id), Kind(name)
                entries += _grants(at, text) if kind is Kind.GRANT else [_entry(at, kind, text)]
            except ValueError:
                unreadable += 1
    return entries, unreadable


def jid(stream_id: str) -> str:
    """A stream's id `ms-seq`, zero-padded."""
    ms, _, seq = stream_id.partition("-")
    return f"{int(ms):013d}-{int(seq):06d}"


def ledger_rows(entries: Iterable[Entry]) -> list[LedgerRow]:
    """What the entries, in order, make of each lease."""
    rows: dict[str, LedgerRow] = {}
    for entry in entries:
        if entry.kind is Kind.EXCUSE:
            continue
        row = rows.get(entry.lease_id) or LedgerRow(
            lease_id=entry.lease_id, owner=entry.owner, proxy_id=entry.proxy_id, target=entry.target,
            granted_ms=entry.granted_ms, expires_ms=entry.expires_ms,
        )  # fmt: skip
        row = replace(row, expires_ms=max(row.expires_ms, entry.expires_ms), outcome=entry.outcome or row.outcome)
        if entry.is_end:
            row = replace(row, ended="released" if entry.kind is Kind.RELEASE else "expired", ended_ms=entry.at_ms)
        rows[entry.lease_id] = row
    return list(rows.values())


def evidence(facts: LeaseFacts, entries: Sequence[Entry]) -> LeaseFacts:
    """A proxy's facts with those of its entries, in order, that they do not hold yet; older outcomes fade."""
    known = facts.journal_id
    for entry in entries:
        if entry.jid <= known:
            continue
        facts = replace(facts, journal_id=entry.jid, granted=facts.granted + (entry.kind is Kind.GRANT))
        if entry.kind is Kind.EXCUSE:
            facts = replace(facts, bad=max(0.0, facts.bad - 1))
        elif entry.kind is Kind.OUTCOME and (entry.outcome == Outcome.OK or entry.outcome in PROXY_FAULTS):
            good = entry.outcome == Outcome.OK
            facts = replace(facts, ok=facts.ok * MEMORY + good, bad=facts.bad * MEMORY + (not good))
    return facts


def _grants(at: str, text: str) -> Iterator[Entry]:
    base, owner, target, granted, expires, proxies = text.split("|")
    for number, proxy_id in enumerate(proxies.split(","), start=1):
        yield Entry(
            jid=at, kind=Kind.GRANT, lease_id=f"{base}.{number}", owner=owner, proxy_id=proxy_id, target=target,
            granted_ms=int(granted), expires_ms=int(expires),
        )  # fmt: skip


def _entry(at: str, kind: Kind, text: str) -> Entry:
    lease_id, owner, proxy_id, target, granted, expires, outcome = text.split("|")
    return Entry(
        jid=at, kind=kind, lease_id=lease_id, owner=owner, proxy_id=proxy_id, target=target,
        granted_ms=int(granted), expires_ms=int(expires), outcome=outcome,
    )  # fmt: skip
