"""The journal's folds: pure, so that a repeated or overlapping stretch changes nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from proxypool.leases.ledger import journal
from proxypool.proxies.record import LeaseFacts
from proxypool_client.outcome import Outcome

BASE = "0" * 32
STORY = [
    ("5-0", ["g", f"{BASE}|ann|a.example|5|65|p1,p2"]),
    ("6-0", ["k", f"{BASE}.1|ann|p1|a.example|5|99|"]),
    ("10-0", ["o", f"{BASE}.1|ann|p1|a.example|5|99|ok"]),
    ("10-1", ["r", f"{BASE}.1|ann|p1|a.example|5|99|ok"]),
    ("70-0", ["x", f"{BASE}.2|ann|p2|a.example|5|65|"]),
]


def test_text_order_of_ids_is_their_order() -> None:
    """I6: two numbers, not one text."""
    ids = ["9-0", "10-0", "10-2", "10-10"]

    assert sorted(map(journal.journal_id, ids)) == [journal.journal_id(one) for one in ids]


def test_each_lease_is_folded_into_one_row() -> None:
    """I23."""
    first, second = journal.ledger_rows(journal.parse_entries(STORY)[0])

    assert (first.lease_id, first.ended, first.ended_ms, first.outcome, first.expires_ms) == (
        BASE + ".1",
        "released",
        10,
        "ok",
        99,
    )
    assert (second.lease_id, second.ended, second.proxy_id) == (BASE + ".2", "expired", "p2")


@given(st.integers(0, len(STORY)), st.integers(0, len(STORY)))
def test_overlapping_stretches_count_each_entry_once(first_end: int, second_start: int) -> None:
    """I23: what the row holds already is not added again."""
    entries = [entry for entry in journal.parse_entries(STORY)[0] if entry.proxy_id == "p1"]
    whole = journal.add_evidence(LeaseFacts(), entries)

    torn = journal.add_evidence(LeaseFacts(), entries[:first_end])
    again = journal.add_evidence(torn, entries[: min(first_end, second_start)])

    assert again == torn
    assert journal.add_evidence(torn, entries) == whole
    assert (whole.granted, whole.ok, whole.bad) == (1, 1.0, 0.0)


@pytest.mark.parametrize(
    ("outcome", "ok", "bad"),
    [
        (Outcome.OK, 1, 0),
        (Outcome.PROXY_ERROR, 0, 1),
        (Outcome.TIMEOUT, 0, 1),
        (Outcome.CREDENTIALS, 0, 1),
        (Outcome.BLOCKED, 0, 0),  # the target's own doing
        (Outcome.CAPTCHA, 0, 0),
        (Outcome.RATE_LIMITED, 0, 0),
        (Outcome.TARGET_ERROR, 0, 0),
        (Outcome.SERVER_ERROR, 0, 0),
    ],
)
def test_only_the_proxys_own_faults_count_against_it(outcome: Outcome, ok: int, bad: int) -> None:
    """An outcome that the target caused is no evidence of the proxy."""
    entries, _ = journal.parse_entries([("1-0", ["o", f"{BASE}.1|ann|p1|a.example|5|99|{outcome}"])])

    facts = journal.add_evidence(LeaseFacts(), entries)

    assert (facts.ok, facts.bad) == (ok, bad)
