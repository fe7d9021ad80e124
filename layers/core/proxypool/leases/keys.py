"""Every Redis key of a pool: its name, type, meaning and lifetime. All lie in one slot, under the pool's hash tag.

No lease data has a key TTL: a serverless cache evicts keys that have one, and an evicted lease is granted twice. What ends
stands in a sorted set by its end, and scripts take it out. Only two keys have a TTL, since losing them is harmless: the lock
of the expiry run (a run that overlaps another changes nothing) and the memory of a refusal.

    pool             HASH    epoch (absent: the cache is new or lost) · filled (the layout
                             of the last complete fill) · fill_after (layout and cursor of one that is not) · paused ("1") · owner_quota · exit_cap ·
                             breaker_failures · breaker_ms · rate:<target> and rate:* ("gap_ms burst"): by expire_leases
    r:<pr>:<cc>:<an> ZSET    ready members by score in billionths; pr a protocol, cc a country or "*", an 0–2 (anonymity's rank)
    p:<proxy id>     HASH    facts: v version, m ready member, s score, z its ready sets, e fresh until (ms), c slots, j what a
                             lease shows; state: h holders, n grants, f failures in a row, b breaker ("o" open, "h" half-open).
                             v outlives a removal by two days, so that no late record revives the proxy
    fresh            ZSET    proxy id by the instant (ms) at which its last check is too old
    leases           HASH    lease id → owner|proxy id|exit|target|granted ms|fence|session~since|outcome; as long as the lease lives.
                             A session is pinned `since` (ms): both make its name at a gateway, so that one which moved has a new one
    due              ZSET    what ends, by its end (ms): "l" + lease id, "i" + request key, "s" + pin, "b" + proxy id (its open
                             breaker), "q" + target (likewise), "p" + target (its old numbers), "v" + removed proxy id
    held:<owner>     SET     the owner's live leases
    exits            HASH    exit IP → holders
    asked            HASH    request key or repeated base id → base id|leases|fingerprint: a repeat finds its leases; by `due`
    pace:<target>    ZSET    exit IP → ms before which it is not used for the target: rate cap (GCRA) and cool-down are one number
    fails:<target>   HASH    proxy or lease id → ms of its failure, with "b" where a proxy is suspected; a minute's worth
    targets          HASH    target → breaker: "o" open, "h" half-open, "h" + the lease id of its probe; absent: closed
    pins             HASH    owner|session → proxy id ("": it left a gateway that banned it)|pinned since (ms); goes by `due`
    joint            HASH    owner|session~since|proxy id → the session's live leases there, which are one holder
    rr               HASH    ready set → the score at which round_robin stands
    refused          HASH    reason → refusals since the last expiry run
    memo:<hash>      STRING  a refusal of these filters: valid until|ms to wait|reasons; TTL 200 ms
    log              STREAM  the journal, drained by expire_leases: fields are kinds, with values joined by "|":
                             g base|owner|target|granted|expires|proxy ids · k,o,r,x,u lease|owner|proxy|target|granted|expires|
                             outcome (grant, renewal, outcome, release, expiry, a failure taken back). Its ids never go back: a
                             grant's id is the fence
    lock             STRING  the expiry run that drains; TTL

A ready member is `layout(5) proxy id(20) exit IP|values|`: a filter reads its values without a call (filters.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

ARGUMENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "acquire": (
        "base", "owner", "count", "at_least", "ttl_ms", "owner_quota", "journal_max", "request_key", "fingerprint", "keep_ms",
        "repeated", "memo", "session", "pin_ms", "pin_total_ms", "strategy", "ready_sets", "min_score",
        "distinct_exit", "target", "need_count", "rest",
    ),
    "expire": ("count",),
    "look": ("owner", "lease"),
    "renew": ("lease", "owner", "ttl_ms", "total_ms"),
    "session_get": ("idle_seconds", "life_seconds"),
    "session_put": ("body", "version", "idle_seconds", "life_seconds"),
    "tell": (
        "owner", "outcome", "ends", "cool_ms", "proxy_result", "target_result", "breaker_failures", "breaker_ms", "lease_ids",
    ),
    "unlock": ("run",),
    "upsert": ("keep_ms", "again", "rows"),
}  # fmt: skip
"""Each script's arguments in order: `ARG.owner` is the argument, `AT.owner` its position."""

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
    "ENTRY": {"grant": "g", "renewal": "k", "outcome": "o", "release": "r", "expiry": "x", "reverted": "u"},
    "PROXY_RESULT": {"failed": "f", "carried": "p", "unknown": ""},
    "TARGET_RESULT": {"failed": "f", "answered": "a", "unknown": ""},
}  # fmt: skip
HEAD: Final = "B"  # the first character of a ready member: what stands in front of its values, and where
MEMBER_ID: Final = slice(5, 25)  # the proxy id in a ready member, between its layout and its exit IP
_RECORD: Final = ("owner", "proxy", "exit", "target", "granted", "fence", "session", "outcome", "ends")
CONSTANTS: Final[Mapping[str, Mapping[str, str]]] = {
    **{table: {name: f"'{text}'" for name, text in names.items()} for table, names in _QUOTED.items()},
    "L": {name: str(number) for number, name in enumerate(_RECORD, start=1)},
    "MEMBER": {
        "head": str(ord(HEAD)), "id": str(MEMBER_ID.start + 1), "id_end": str(MEMBER_ID.stop), "exit": str(MEMBER_ID.stop + 1),
    },
}  # fmt: skip
"""What else the scripts call by name: keys behind the tag, fields of a proxy, states, kinds, positions in a lease's record."""

ANY_COUNTRY = "*"


@dataclass(frozen=True, slots=True)
class Keys:
    """The names that Python uses by itself; the scripts make theirs from the same tag, in lua/head.lua."""

    pool: str

    @property
    def tag(self) -> str:
        """What every key begins with, and what its slot is made of."""
        return f"{{p:{self.pool}}}"

    @property
    def settings(self) -> str:
        """HASH: epoch, paused, owner_quota."""
        return f"{self.tag}:pool"

    @property
    def leases(self) -> str:
        """HASH: the live leases."""
        return f"{self.tag}:leases"

    @property
    def log(self) -> str:
        """STREAM: the journal."""
        return f"{self.tag}:log"

    @property
    def lock(self) -> str:
        """STRING: who drains the journal."""
        return f"{self.tag}:lock"


def ready_set(protocol: str, country: str, rank: int) -> str:
    """The name (behind the tag) of one ready set."""
    return f"r:{protocol}:{country}:{rank}"
