"""The history checker alone: it finds nothing in a correct history, and each violation in a broken one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from proxypool.leases.ledger.journal import EntryKind, JournalEntry

from tests.support.lease_history import Call, CallResult, ObservedLease, Op, violations

CAPS, TOTAL_MS = {"p": 1}, 3_000
FIRST, SECOND = "first.1", "second.1"


def entry(kind: EntryKind, at: int, lease_id: str = FIRST, **changes: Any) -> JournalEntry:
    """Journal entries of the first lease (1,000–2,000), or of the second (5,000–6,000)."""
    start = 1_000 if lease_id == FIRST else 5_000
    values: dict[str, Any] = {
        "owner": "ann", "proxy_id": "p", "target": lease_id, "granted_ms": start, "expires_ms": start + 1_000
    } | changes  # fmt: skip
    return JournalEntry(journal_id=f"{at:013d}-{values.pop('seq', 0):06d}", kind=kind, lease_id=lease_id, **values)


def shown(lease_id: str = FIRST, **changes: Any) -> ObservedLease:
    """The same lease in an answer."""
    start = 1_000 if lease_id == FIRST else 5_000
    lease = ObservedLease(lease_id=lease_id, proxy_id="p", fence=f"{start}-0", granted=start, expires=start + 1_000)
    return replace(lease, **changes)


def call(op: Op, at: int, result: CallResult = CallResult.OK, **changes: Any) -> Call:
    """A call of ann's, two milliseconds long, about her first lease."""
    values = {"owner": "ann", "lease_id": FIRST if op in (Op.RENEW, Op.RELEASE) else "", "mark": FIRST} | changes
    return Call(op=op, started=at - 1, ended=at + 1, result=result, **values)


JOURNAL = [
    entry(EntryKind.GRANT, 1_000), entry(EntryKind.RENEWAL, 1_500, expires_ms=3_000), entry(EntryKind.RELEASE, 2_500, expires_ms=3_000),
    entry(EntryKind.GRANT, 5_000, SECOND), entry(EntryKind.EXPIRY, 7_000, SECOND),
]  # fmt: skip
CALLS = [
    call(Op.ACQUIRE, 1_000, shown=(shown(),)),
    call(Op.RENEW, 1_500, shown=(shown(expires=3_000),)),
    call(Op.ACQUIRE, 1_600, CallResult.FAIL, owner="bob", mark="other"),
    call(Op.READ, 2_000, shown=(shown(expires=3_000),)),
    call(Op.RELEASE, 2_200, CallResult.FAIL, owner="bob"),
    call(Op.RELEASE, 2_500, CallResult.UNKNOWN),
    call(Op.RELEASE, 2_600, CallResult.FAIL),
    call(Op.ACQUIRE, 5_000, mark=SECOND, shown=(shown(SECOND),)),
]


def test_a_sound_history_is_found_sound() -> None:
    """I1–I6."""
    assert violations(CALLS, JOURNAL, caps=CAPS, total_ms=TOTAL_MS) == []


BROKEN: dict[str, tuple[str, list[Call], list[JournalEntry]]] = {
    "a holder too many": ("I1", [], [entry(EntryKind.GRANT, 1_900, "third.1", granted_ms=1_900)]),
    "an answer of which the journal knows nothing": ("I1", [call(Op.ACQUIRE, 8_000, shown=(shown("third.1"),))], []),
    "one request, two leases": ("I2", [], [entry(EntryKind.GRANT, 7_500, "third.1", target=SECOND, granted_ms=7_500)]),
    "one lease, granted twice": ("I2", [], [entry(EntryKind.GRANT, 7_500, SECOND, granted_ms=7_500)]),
    "one request, two answers": ("I2", [call(Op.ACQUIRE, 1_100, shown=(shown(lease_id=SECOND, fence="5000-0"),))], []),
    "another's renewal": ("I3", [call(Op.RENEW, 1_700, owner="bob")], []),
    "a release of what is over": ("I3", [call(Op.RELEASE, 2_700)], []),
    "a living lease is not found": ("I3", [call(Op.RENEW, 2_000, CallResult.FAIL)], []),
    "nobody released it": ("I3", [], [entry(EntryKind.RELEASE, 5_500, SECOND)]),
    "released twice": ("I3", [call(Op.RELEASE, 2_499), call(Op.RELEASE, 2_500)], []),
    "something of a lease that is over": ("I3", [], [entry(EntryKind.RENEWAL, 2_600)]),
    "a refusal beside a free proxy": ("I4", [call(Op.ACQUIRE, 4_000, CallResult.FAIL, mark="other")], []),
    "a lease is shown behind its end": ("I4", [call(Op.READ, 6_500, shown=(shown(SECOND),))], []),
    "another's lease is shown": ("I4", [call(Op.READ, 5_500, owner="bob", shown=(shown(SECOND),))], []),
    "a living lease is not shown": ("I4", [call(Op.READ, 5_500)], []),
    "an end before its time": ("I4", [], [entry(EntryKind.EXPIRY, 5_500, SECOND)]),
    "a renewal that shortens": ("I5", [], [entry(EntryKind.RENEWAL, 5_500, SECOND, expires_ms=5_900)]),
    "a renewal past the total": ("I5", [], [entry(EntryKind.RENEWAL, 5_500, SECOND, expires_ms=8_001)]),
    "a renewal that revives": ("I5", [], [entry(EntryKind.RENEWAL, 6_500, SECOND, expires_ms=7_500)]),
    "an end that nobody set": ("I5", [call(Op.RENEW, 1_600, shown=(shown(expires=2_222),))], []),
    "a fence of another grant": ("I6", [call(Op.RENEW, 1_600, shown=(shown(fence="1000-1"),))], []),
    "a fence that is less as a number": (
        "I6",
        [call(Op.ACQUIRE, 8_000, mark=one, shown=(shown(one, granted=at, expires=at + 1, fence=fence),))
         for one, at, fence in (("third.1", 8_000, "8000-10"), ("fourth.1", 8_001, "8000-9"))],
        [entry(EntryKind.GRANT, 8_000, one, seq=seq, granted_ms=at, expires_ms=at + 1)
         for one, at, seq in (("third.1", 8_000, 10), ("fourth.1", 8_001, 9))],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_history_is_found_broken(name: str) -> None:
    """I1–I6: a checker that can fail."""
    number, calls, entries = BROKEN[name]
    journal = sorted([*JOURNAL, *entries], key=lambda entry: entry.journal_id)

    found = violations([*CALLS, *calls], journal, caps=CAPS, total_ms=TOTAL_MS)

    assert number in {text[:2] for text in found}, found
