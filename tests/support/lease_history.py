"""A history checker for the invariants I1–I6: compares the calls of clients of the lease engine with its journal.

The result of a call may be unknown: it took effect once, later, or never. Server and clients have the same clock (one machine).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from proxypool.leases.ledger.journal import EntryKind, JournalEntry

MEMORY_MS = 250  # a cached refusal may be returned for this long after a proxy has become free


class Op(StrEnum):
    """An operation of a client."""

    ACQUIRE = "acquire"
    RENEW = "renew"
    RELEASE = "release"
    READ = "read"


class CallResult(StrEnum):
    """The result of a call for its client."""

    OK = "ok"
    FAIL = "fail"  # refused: nothing changed
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedLease:
    """A lease in a response."""

    lease_id: str
    proxy_id: str
    fence: str
    granted: int
    expires: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call, from just before its start to just after its end, in epoch milliseconds.

    `mark` identifies the request: calls with the same mark are retries of each other. `lease_id` is that of a renewal or release.
    """

    op: Op
    owner: str
    started: int
    ended: int
    result: CallResult
    mark: str = ""
    lease_id: str = ""
    shown: tuple[ObservedLease, ...] = ()


@dataclass(slots=True, kw_only=True)
class Lifetime:
    """A lease according to the journal; `over` is the instant of its release, or of the journal entry of its expiry."""

    owner: str
    proxy_id: str
    mark: str
    fence: tuple[int, int]
    granted: int
    ends: list[int] = field(default_factory=list)  # of the grant, then of each renewal
    over: int | None = None
    released: bool = False

    @property
    def until(self) -> int:
        """The first instant at which it does not count any more, whether or not a script has removed it yet."""
        return self.ends[-1] if self.over is None else min(self.over, self.ends[-1])


def violations(
    calls: Sequence[Call], journal: Sequence[JournalEntry], *, caps: Mapping[str, int], total_ms: int
) -> list[str]:
    """The violations of the invariants, each beginning with the invariant's number; `caps` is the maximum of holders by proxy."""
    lives: dict[str, Lifetime] = {}
    return [
        *_read_lives(lives, journal, total_ms),
        *_too_many_holders(lives, caps),
        *_granted_twice(lives, calls),
        *_foreign_and_stale(lives, calls),
        *_counted_past_the_end(lives, calls, caps),
        *_answers_against_the_journal(lives, calls),
        *_fences(calls),
    ]


def _read_lives(lives: dict[str, Lifetime], journal: Iterable[JournalEntry], total_ms: int) -> Iterator[str]:
    """Fills `lives`; yields the violations within each lease."""
    for entry in journal:
        life = lives.get(entry.lease_id)
        if entry.kind is EntryKind.GRANT:
            if life:
                yield f"I2 {entry.lease_id} was granted twice"
            ms, seq = entry.journal_id.split("-")
            lives[entry.lease_id] = Lifetime(
                owner=entry.owner, proxy_id=entry.proxy_id, mark=entry.target, fence=(int(ms), int(seq)),
                granted=entry.granted_ms, ends=[entry.expires_ms],
            )  # fmt: skip
            continue
        if life is None or life.over is not None:
            yield f"I3 {entry.lease_id} is over or never was, and still: {entry.kind}"
            continue
        if entry.kind is EntryKind.RENEWAL:
            if entry.at_ms >= life.ends[-1]:
                yield f"I5 {entry.lease_id} was over and a renewal revived it"
            if not life.ends[-1] <= entry.expires_ms <= life.granted + total_ms:
                yield f"I5 {entry.lease_id} was renewed from {life.ends[-1]} to {entry.expires_ms}"
            life.ends.append(entry.expires_ms)
        elif entry.is_end:
            life.over, life.released = entry.at_ms, entry.kind is EntryKind.RELEASE
            if life.released == (entry.at_ms >= life.ends[-1]):
                yield f"I4 {entry.lease_id}: {entry.kind} at {entry.at_ms}, its end is {life.ends[-1]}"


def _too_many_holders(lives: Mapping[str, Lifetime], caps: Mapping[str, int]) -> Iterator[str]:
    for life in lives.values():
        if _holders(lives.values(), life.proxy_id, life.granted, life.granted) > caps[life.proxy_id]:
            yield f"I1 {life.proxy_id} has too many holders at {life.granted}"


def _granted_twice(lives: Mapping[str, Lifetime], calls: Iterable[Call]) -> Iterator[str]:
    for mark, times in Counter(life.mark for life in lives.values()).items():
        if times > 1:
            yield f"I2 {mark} was granted {times} times"
    answers = defaultdict(set)
    for call in calls:
        if call.op is Op.ACQUIRE and call.result is CallResult.OK:
            answers[call.mark].add(tuple(lease.lease_id for lease in call.shown))
    for mark, sets in answers.items():
        if len(sets) > 1:
            yield f"I2 {mark} was answered in {len(sets)} ways"


def _foreign_and_stale(lives: Mapping[str, Lifetime], calls: Sequence[Call]) -> Iterator[str]:
    releases = defaultdict(list)
    for call in calls:
        life = lives.get(call.lease_id)
        if call.op not in (Op.RENEW, Op.RELEASE) or life is None:
            continue
        mine = call.owner == life.owner
        if mine and call.op is Op.RELEASE:
            releases[call.lease_id].append(call)
        if call.result is CallResult.OK and (not mine or life.until < call.started):
            yield f"I3 {call.op} of {call.lease_id}, foreign or over since {life.until}, at {call.started} by {call.owner}"
        if call.result is CallResult.FAIL and mine and life.granted <= call.started and call.ended < life.until:
            yield f"I3 {call.op} of {call.lease_id} was refused while it lived"
    for lease_id, life in lives.items():
        if life.released and not any(call.started <= (life.over or 0) for call in releases[lease_id]):
            yield f"I3 {lease_id} was released, but not by its owner"
        if sum(call.result is CallResult.OK for call in releases[lease_id]) > 1:
            yield f"I3 {lease_id} was released twice"


def _counted_past_the_end(
    lives: Mapping[str, Lifetime], calls: Iterable[Call], caps: Mapping[str, int]
) -> Iterator[str]:
    for call in calls:
        if call.op is Op.ACQUIRE and call.result is CallResult.FAIL:
            since = call.started - MEMORY_MS
            free = [one for one, cap in caps.items() if _holders(lives.values(), one, since, call.ended) < cap]
            if free:
                yield f"I4 {call.mark} was refused at {call.ended}, though {free} had been free since {since}"
        elif call.op is Op.READ and call.result is CallResult.OK:
            seen = {lease.lease_id for lease in call.shown}
            mine = {one: life for one, life in lives.items() if life.owner == call.owner}
            if over := {one for one in seen if one not in mine or mine[one].until < call.started}:
                yield f"I4 {over} are shown to {call.owner} at {call.started}, but they are over or another's"
            lasting = {one for one, life in mine.items() if life.granted < call.started and call.ended < life.until}
            if missing := lasting - seen:
                yield f"I4 {missing} lived at {call.started} and were not shown to {call.owner}"


def _answers_against_the_journal(lives: Mapping[str, Lifetime], calls: Iterable[Call]) -> Iterator[str]:
    for call in calls:
        for lease in call.shown:
            life = lives.get(lease.lease_id)
            if life is None or (life.proxy_id, life.granted) != (lease.proxy_id, lease.granted):
                yield f"I1 {lease} is not what the journal says: {life}"
            elif _numbers(lease.fence) != life.fence:
                yield f"I6 {lease.lease_id} has the fence {lease.fence}, its grant {life.fence}"
            elif lease.expires not in life.ends:
                yield f"I5 {lease.lease_id} ends at {lease.expires}, the journal knows {life.ends}"


def _fences(calls: Iterable[Call]) -> Iterator[str]:
    """A later grant of a proxy has the greater fence, as two numbers."""
    shown = {lease.lease_id: lease for call in calls for lease in call.shown}
    last: dict[str, ObservedLease] = {}
    for lease in sorted(shown.values(), key=lambda lease: (lease.granted, _numbers(lease.fence))):
        before = last.get(lease.proxy_id)
        if before and _numbers(lease.fence) <= _numbers(before.fence):
            yield f"I6 {lease.proxy_id}: the fence {lease.fence} of {lease.granted} is not above {before.fence}"
        last[lease.proxy_id] = lease


def _holders(lives: Iterable[Lifetime], proxy_id: str, first: int, last: int) -> int:
    """The number of leases of the proxy that were live at some instant from `first` to `last`."""
    return sum(life.proxy_id == proxy_id and life.granted <= last and first < life.until for life in lives)


def _numbers(fence: str) -> tuple[int, int]:
    ms, _, seq = fence.partition("-")
    return int(ms), int(seq)
