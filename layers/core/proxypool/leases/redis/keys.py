"""Every Redis key of a pool (name, type, content, lifetime) and the symbolic names of the Lua scripts.

All keys of a pool are in one slot, under its hash tag. No lease data has a TTL: a serverless cache evicts keys with a TTL, and
an evicted lease would be granted twice. What expires is in a sorted set by its end, and scripts delete it. Two keys have a TTL,
since losing them is harmless: the lock of the expiry run (overlapping runs change nothing) and a remembered refusal.

    pool             HASH    epoch (absent: the cache is new or lost) · filled (the layout of the last complete fill) · fill_after
                             (layout, id and cursor of an incomplete one) · paused ("1") · owner_quota · exit_cap ·
                             breaker_failures · breaker_ms · rate:<target> and rate:* ("gap_ms burst"): set by expire_leases
    r:<pr>:<cc>:<an> ZSET    ready members by score in billionths: protocol, country or "*", anonymity's rank 0–2
    p:<proxy id>     HASH    facts: version, member, score, sets (its ready sets), fresh_until (ms), slots, facts (JSON of a lease);
                             state: holders, grants, failures in a row, breaker. The version is kept for two days after a
                             removal, so that a late record does not restore the proxy
    fresh            ZSET    proxy id by the instant (ms) at which its last check is too old
    leases           HASH    lease id → owner|proxy id|exit|target|granted ms|fence|session~since|outcome, until the lease ends.
                             `since` is the instant (ms) of the session's pin: a gateway's name for the session is made of both
    due              ZSET    expiries: kind (table END) and id by its end (ms): a lease, a request key, a pin, a proxy's open breaker,
                             a target's open breaker, a target's numbers, a removed proxy's version
    held:<owner>     SET     the owner's live leases
    exits            HASH    exit IP → holders
    asked            HASH    idempotency: request key or repeated base id → base id|leases|fingerprint; expires
    pace:<target>    ZSET    not before: exit IP → ms before which it is not used for the target (rate by GCRA, and cool-down)
    fails:<target>   HASH    failures: proxy or lease id → ms, with "b" if the proxy is suspected; of the last minute
    targets          HASH    target → breaker: "o" open, "h" half-open, "h" + the lease id of its probe; absent: closed
    pins             HASH    owner|session → proxy id ("": unpinned from a gateway that was banned)|since (ms); expires
    joint            HASH    session holders: owner|session~since|proxy id → the session's live leases there, one holder together
    rr               HASH    cursors: ready set → the score that round_robin has reached
    refused          HASH    refusals: reason → number since the last expiry run
    memo:<hash>      STRING  a remembered refusal of these filters: valid until|ms to wait|reasons; TTL 200 ms
    log              STREAM  the journal, drained by expire_leases. A field is a kind (table JOURNAL_KINDS), its value is joined by "|":
                             of a grant base|owner|target|granted|expires|proxy ids, else lease|owner|proxy|target|granted|
                             expires|outcome. Stream ids only increase: that of a grant is the fence
    lock             STRING  the expiry run that drains; TTL

A ready member is `layout(5) proxy id(20) exit IP|values|`: a filter reads its values without a call (filters.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from proxypool.leases.outcome import ProxyResult, TargetResult

SCRIPT_ARGUMENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "acquire": (
        "base", "owner", "count", "at_least", "ttl_ms", "owner_quota", "journal_max", "request_key", "fingerprint", "keep_ms",
        "repeated", "memo", "session", "pin_ms", "pin_total_ms", "strategy", "ready_sets", "min_score",
        "distinct_exit", "target", "need_count", "rest",
    ),
    "expire": ("count",),
    "list": ("owner", "lease"),
    "renew": ("lease", "owner", "ttl_ms", "total_ms"),
    "session_get": ("idle_seconds", "life_seconds"),
    "session_put": ("body", "version", "idle_seconds", "life_seconds"),
    "report": (
        "owner", "outcome", "ends", "cool_ms", "proxy_result", "target_result", "breaker_failures", "breaker_ms", "lease_ids",
    ),
    "unlock": ("run",),
    "upsert": ("keep_ms", "again", "rows"),
}  # fmt: skip
"""Each script's arguments in order: `ARG.owner` is the argument, `AT.owner` its position."""

JOURNAL_KINDS: Final = {"grant": "g", "renewal": "k", "outcome": "o", "release": "r", "expiry": "x", "reverted": "u"}
_QUOTED: Final[Mapping[str, Mapping[str, str]]] = {
    "KEY": {
        "settings": "pool", "proxy": "p:", "fresh": "fresh", "leases": "leases", "expiries": "due", "held": "held:",
        "idempotency": "asked", "refusals": "refused", "journal": "log", "exits": "exits", "not_before": "pace:",
        "failures": "fails:", "breakers": "targets", "pins": "pins", "session_holders": "joint", "cursors": "rr",
        "refusal_memory": "memo:", "lock": "lock",
    },
    "F": {
        "version": "v", "member": "m", "score": "s", "sets": "z", "fresh_until": "e", "slots": "c", "facts": "j",
        "holders": "h", "grants": "n", "failures": "f", "breaker": "b",
    },
    "BREAKER": {"open": "o", "half_open": "h", "suspected": "b"},
    "END": {
        "lease": "l", "idempotency": "i", "pin": "s", "proxy_breaker": "b", "target_breaker": "q", "numbers": "p", "version": "v",
    },
    "JOURNAL_KINDS": JOURNAL_KINDS,
    "PROXY_RESULT": {one.name.lower(): one.value for one in ProxyResult},
    "TARGET_RESULT": {one.name.lower(): one.value for one in TargetResult},
}  # fmt: skip
MEMBER_PREFIX: Final = "B"  # the first character of a ready member; another one if the parts before its values change
MEMBER_ID: Final = slice(5, 25)  # the proxy id in a ready member, after its layout
_RECORD: Final = ("owner", "proxy", "exit", "target", "granted", "fence", "session", "outcome", "ends")
SCRIPT_CONSTANTS: Final[Mapping[str, Mapping[str, str]]] = {
    **{table: {name: f"'{text}'" for name, text in names.items()} for table, names in _QUOTED.items()},
    "L": {name: str(number) for number, name in enumerate(_RECORD, start=1)},
    "MEMBER": {
        "head": str(ord(MEMBER_PREFIX)), "id": str(MEMBER_ID.start + 1), "id_end": str(MEMBER_ID.stop), "exit": str(MEMBER_ID.stop + 1),
    },
}  # fmt: skip
"""Other names in the scripts: keys behind the tag, fields of a proxy, states and kinds, positions in records and members."""

ANY_COUNTRY = "*"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Keys:
    """The keys that Python uses; the scripts build theirs from the same tag, in lua/head.lua."""

    pool: str

    @property
    def tag(self) -> str:
        """The prefix of every key, and the hash tag of its slot."""
        return f"{{p:{self.pool}}}"

    @property
    def settings(self) -> str:
        """HASH: the pool's state and settings."""
        return f"{self.tag}:pool"

    @property
    def leases(self) -> str:
        """HASH: the live leases."""
        return f"{self.tag}:leases"

    @property
    def journal(self) -> str:
        """STREAM: the journal."""
        return f"{self.tag}:log"

    @property
    def lock(self) -> str:
        """STRING: the expiry run that drains the journal."""
        return f"{self.tag}:lock"


def ready_set(protocol: str, country: str, rank: int) -> str:
    """The name (behind the tag) of one ready set."""
    return f"r:{protocol}:{country}:{rank}"
