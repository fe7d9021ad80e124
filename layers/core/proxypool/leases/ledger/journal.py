"""Reads journal entries and folds them: per lease into its ledger row, per proxy into its evidence. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from proxypool_client.outcome import Outcome

from proxypool.leases.outcome import PROXY_FAULTS
from proxypool.leases.redis.keys import JOURNAL_KINDS
from proxypool.proxies.record import LeaseFacts

OUTCOME_DECAY = 0.98  # the weight of older outcomes is multiplied by this: about fifty count


class EntryKind(StrEnum):
    """The kind of a journal entry."""

    GRANT = JOURNAL_KINDS["grant"]
    RENEWAL = JOURNAL_KINDS["renewal"]
    OUTCOME = JOURNAL_KINDS["outcome"]
    RELEASE = JOURNAL_KINDS["release"]
    EXPIRY = JOURNAL_KINDS["expiry"]
    REVERTED = JOURNAL_KINDS["reverted"]  # a failure of the proxy was the fault of the target


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """A journal entry of one lease. `journal_id` is the stream id, zero-padded so that texts sort in its order."""

    journal_id: str
    kind: EntryKind
    lease_id: str
    owner: str
    proxy_id: str
    target: str
    granted_ms: int
    expires_ms: int
    outcome: str = ""

    @property
    def at_ms(self) -> int:
        """Its instant in milliseconds, by the server's clock."""
        return int(self.journal_id.partition("-")[0])

    @property
    def is_end(self) -> bool:
        """Whether it ends the lease."""
        return self.kind in (EntryKind.RELEASE, EntryKind.EXPIRY)


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRow:
    """A lease in the ledger; `ended` is "" (open), "released", "expired" or "lost" (with the cache)."""

    lease_id: str
    owner: str
    proxy_id: str
    target: str = ""
    granted_ms: int
    expires_ms: int
    outcome: str = ""
    ended: str = ""
    ended_ms: int = 0


def parse_entries(found: Iterable[Sequence[Any]]) -> tuple[list[JournalEntry], int]:
    """The entries in an answer of XRANGE, and the number of those that cannot be parsed.

    A stream entry is an id and a flat list of kinds and texts. A grant of several leases becomes several entries.
    """
    entries: list[JournalEntry] = []
    unreadable = 0
    for stream_id, fields in found:
        for name, text in zip(fields[::2], fields[1::2], strict=True):
            try:
                at, kind = journal_id(stream_id), EntryKind(name)
                entries += _grants(at, text) if kind is EntryKind.GRANT else [_entry(at, kind, text)]
            except ValueError:
                unreadable += 1
    return entries, unreadable


def journal_id(stream_id: str) -> str:
    """A stream id `ms-seq`, zero-padded."""
    ms, _, seq = stream_id.partition("-")
    return f"{int(ms):013d}-{int(seq):06d}"


def ledger_rows(entries: Iterable[JournalEntry]) -> list[LedgerRow]:
    """The ledger row of each lease after these entries, which are in order."""
    rows: dict[str, LedgerRow] = {}
    for entry in entries:
        if entry.kind is EntryKind.REVERTED:
            continue
        row = rows.get(entry.lease_id) or LedgerRow(
            lease_id=entry.lease_id, owner=entry.owner, proxy_id=entry.proxy_id, target=entry.target,
            granted_ms=entry.granted_ms, expires_ms=entry.expires_ms,
        )  # fmt: skip
        row = replace(row, expires_ms=max(row.expires_ms, entry.expires_ms), outcome=entry.outcome or row.outcome)
        if entry.is_end:
            row = replace(row, ended="released" if entry.kind is EntryKind.RELEASE else "expired", ended_ms=entry.at_ms)
        rows[entry.lease_id] = row
    return list(rows.values())


def add_evidence(facts: LeaseFacts, entries: Sequence[JournalEntry]) -> LeaseFacts:
    """A proxy's facts plus the entries (in order) that are newer than them; older outcomes lose weight."""
    last = facts.journal_id
    for entry in entries:
        if entry.journal_id <= last:
            continue
        facts = replace(facts, journal_id=entry.journal_id, granted=facts.granted + (entry.kind is EntryKind.GRANT))
        if entry.kind is EntryKind.REVERTED:
            facts = replace(facts, bad=max(0.0, facts.bad - 1))
        elif entry.kind is EntryKind.OUTCOME and (entry.outcome == Outcome.OK or entry.outcome in PROXY_FAULTS):
            good = entry.outcome == Outcome.OK
            facts = replace(facts, ok=facts.ok * OUTCOME_DECAY + good, bad=facts.bad * OUTCOME_DECAY + (not good))
    return facts


def _grants(at: str, text: str) -> Iterator[JournalEntry]:
    base, owner, target, granted, expires, proxies = text.split("|")
    for number, proxy_id in enumerate(proxies.split(","), start=1):
        yield JournalEntry(
            journal_id=at, kind=EntryKind.GRANT, lease_id=f"{base}.{number}", owner=owner, proxy_id=proxy_id, target=target,
            granted_ms=int(granted), expires_ms=int(expires),
        )  # fmt: skip


def _entry(at: str, kind: EntryKind, text: str) -> JournalEntry:
    lease_id, owner, proxy_id, target, granted, expires, outcome = text.split("|")
    return JournalEntry(
        journal_id=at, kind=kind, lease_id=lease_id, owner=owner, proxy_id=proxy_id, target=target,
        granted_ms=int(granted), expires_ms=int(expires), outcome=outcome,
    )  # fmt: skip
