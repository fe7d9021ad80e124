"""Every Redis key of a pool: its name, type, meaning and lifetime. All lie in one slot, under the pool's hash tag.

No lease data has a key TTL: a serverless cache evicts keys that have one, and an evicted lease is granted twice. What ends
stands in a sorted set by its end, and scripts take it out. Only the lock of the expiry run has a TTL: losing it is harmless,
since a run that overlaps another changes nothing.

    pool             HASH    epoch (absent: the cache is new or lost) · filled (rebuilt) · paused ("1") · owner_quota: by expire_leases
    r:<pr>:<cc>:<an> ZSET    ready members by score in millionths; pr a protocol, cc a country or "*", an 0–2 (anonymity's rank)
    p:<proxy id>     HASH    facts: v version, m ready member, s score, z its ready sets, e fresh until (ms), j what a lease shows;
                             state: h holders, n grants. v outlives a removal, so that no late record revives the proxy
    fresh            ZSET    proxy id by the instant (ms) at which its last check is too old
    leases           HASH    lease id → owner|proxy id|granted ms|fence|outcome; as long as the lease lives
    due              ZSET    what ends, by its end (ms): "l" + lease id, "i" + request key
    held:<owner>     SET     the owner's live leases
    asked            HASH    request key → base id|leases|fingerprint: a repeated Idempotency-Key finds its leases; goes by `due`
    refused          HASH    reason → refusals since the last expiry run
    log              STREAM  the journal, drained by expire_leases: one field, its kind, with values joined by "|":
                             g base|owner|granted|expires|proxy ids · k,o,r,x lease|owner|proxy|granted|expires|outcome
                             (grant, renewal, outcome, release, expiry). Its ids never go back: a grant's id is the fence
    lock             STRING  the expiry run that drains; TTL

A ready member is `https(0/1) kind(1 letter) latency_ms(5 digits) proxy id(20) exit IP`: what a filter reads costs no call.
"""

from __future__ import annotations

from dataclasses import dataclass

MEMBER_LATENCY_MAX = 99_999


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
