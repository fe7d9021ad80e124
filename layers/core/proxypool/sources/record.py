"""A source: where a list is, how it is read, and how it has fared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import blake2b

from proxypool.proxies.proxy import Kind, Protocol
from proxypool.sources.formats import AUTO
from proxypool.sources.health import Health, health

UPLOADS = "uploads/"  # where uploaded lists lie in the pool's own bucket


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What the operator said (exactly one of `url`, `inline`, `s3`, `path`) and, below, what the scrapes found."""

    source_id: str
    name: str = ""
    url: str = ""
    inline: str = ""
    s3: str = ""  # s3://bucket/key, or uploads/… in the pool's own bucket
    path: str = ""  # a file, on a laptop only
    allow_http: bool = False
    allow_private: bool = False  # the list, and the proxies that it names, may stand in private networks
    expect_one_network: bool = False  # a provider's list or gateway: no caps per host, no health rule
    headers: tuple[str, ...] = ()  # "Name: value"
    secret: str = ""  # the Secrets Manager entry that stands for {secret}
    timeout_seconds: int = 0  # 0: the deployment's
    parser: str = AUTO
    protocol: Protocol = Protocol.HTTP  # of rows that name none
    kind: Kind = Kind.UNKNOWN
    slots: int = 1  # how many may hold a new proxy of it at once
    tags: frozenset[str] = frozenset()
    enabled: bool = True
    schedule: str = ""  # cron(…) or rate(…); empty: the format's default
    created_at: datetime

    claim: int = 0  # until when (epoch ms) one run has this source to itself
    continues: str = ""  # the part of a long list that comes next
    etag: str = ""  # of the last list that was stored to its end, as is `last_modified`
    last_modified: str = ""
    body_hash: str = ""
    read_at: datetime | None = None  # when a list was last read, not skipped as unchanged
    last_scraped_at: datetime | None = None
    last_success_at: datetime | None = None  # with at least one row
    not_before_at: datetime | None = None  # the source asked for a pause (Retry-After)
    stale_told_at: datetime | None = None
    rows: int = 0  # of the last list: good ones and rejected ones
    valid: int = 0
    new: int = 0
    rejected: Mapping[str, int] = field(default_factory=dict)
    held_back: Mapping[str, int] = field(default_factory=dict)
    new_on: str = ""  # the day (UTC) that `new_today` counts
    new_today: int = 0
    exclusive: int = 0  # of the last list: no other source lists them
    aged: int = 0  # of the last list: checked and a day old or more
    alive: int = 0  # of the aged ones
    usual: int = 0  # good rows of a good list, smoothed
    successes: int = 0  # good lists since the source was made, moved or accepted
    suspicions: int = 0  # lists in a row that looked wrong
    suspicion: str = ""  # what was wrong with the last of them
    barren: int = 0  # lists in a row that brought nothing that works
    trend: tuple[int, ...] = ()  # good rows of the last lists, oldest first
    consecutive_failures: int = 0
    last_error: str = ""

    @property
    def health(self) -> Health:
        """healthy, suspect, quarantined or disabled."""
        return health(enabled=self.enabled, suspicions=self.suspicions)

    @property
    def is_judged(self) -> bool:
        """Whether caps and the health rule hold: for lists of strangers, not for one's own or a provider's."""
        return bool(self.url) and not self.expect_one_network

    @property
    def alive_yield(self) -> float | None:
        """The share of its proxies that work a day after they were found; None while none is that old."""
        return self.alive / self.aged if self.aged else None

    @property
    def fingerprint(self) -> bytes:
        """What rows written for this source depend on (16 bytes): another one makes its digest worthless."""
        parts = (str(self.created_at.timestamp()), str(self.allow_private), *sorted(self.tags))
        return blake2b("\0".join(parts).encode(), digest_size=16).digest()
