"""A source: where a list is, how to read it, and the results of its scrapes. Each field says how requests, answers and rows have it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import blake2b
from typing import ClassVar, Final

from proxypool.http.codec import TEXT_OR_NULL, Codec, Meta
from proxypool.http.operation import FRACTION, INTEGER, TEXT, Schema, array, nullable, one_of
from proxypool.http.web import Field
from proxypool.network.address import MAX_URL_CHARS
from proxypool.proxies.proxy import TAG_PATTERN, Kind, Protocol
from proxypool.proxies.record import MAX_SLOTS
from proxypool.sources.formats import AUTO
from proxypool.sources.health import Health, health

UPLOADS: Final = "uploads/"  # prefix of uploaded lists in the deployment's own bucket
SECRETS: Final = "proxypool/sources/"  # prefix of the Secrets Manager entries that scrape_source may read
SECRET_PATTERN: Final = rf"{SECRETS}[A-Za-z0-9/_+=.@-]{{1,200}}"
MAX_TAGS: Final = 10
MAX_HEADERS: Final = 10
_HEADER: Final = r"[A-Za-z0-9-]{1,64}: ?[!-~](?:[ -~]{0,1022}[!-~])?"
_S3: Final = r"|s3://[a-z0-9.-]{3,63}/[!-~]{1,1024}|uploads/[A-Za-z0-9._-]{1,128}"
_HEADER_NAMES: Final = Codec(
    list, array(TEXT), lambda lines: [line.partition(":")[0] for line in lines], list, tuple
)  # a value may be a key


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One source: its settings (exactly one of `url`, `inline`, `s3`, `path`), then what the scrapes found."""

    # fmt: off
    source_id: str
    name: str = field(default="", metadata=Meta(request=Field(pattern=r"[ -~]{0,80}"), shown={}))
    url: str = field(default="", metadata=Meta(
        request=Field(pattern=rf"[!-~]{{0,{MAX_URL_CHARS}}}", description="https, without credentials"),
        shown={}, codec=TEXT_OR_NULL,
    ))
    inline: str = field(default="", metadata=Meta(request=Field(description="the list itself")))
    s3: str = field(default="", metadata=Meta(
        request=Field(
            pattern=_S3,
            description="an object: s3://bucket/key of the deployment's SourceBucket, or uploads/… for POST /sources/{id}/upload",
        ),
        shown={}, codec=TEXT_OR_NULL,
    ))
    path: str = field(default="", metadata=Meta(
        request=Field(description="a file; on a local stack only"), shown={}, codec=TEXT_OR_NULL,
    ))
    allow_http: bool = field(default=False, metadata=Meta(
        request=Field(description="the URL may be plain http"), shown={},
    ))
    allow_private: bool = field(default=False, metadata=Meta(
        request=Field(description="list and proxies may stand in private networks (never link-local, metadata)"), shown={},
    ))
    expect_one_network: bool = field(default=False, metadata=Meta(
        request=Field(description="a provider's list or gateway: no caps per host and /24, no health rule"), shown={},
    ))
    headers: tuple[str, ...] = field(default=(), metadata=Meta(
        request=Field(pattern=_HEADER, max_items=MAX_HEADERS, description="`Name: value`, sent with the request"),
        shown={"description": "Their names: a value may be a key"}, codec=_HEADER_NAMES,
    ))
    secret: str = field(default="", metadata=Meta(
        request=Field(
            pattern=rf"|{SECRET_PATTERN}",
            description="Secrets Manager entry that stands for {secret} or {secret:member} in url, headers and inline",
        ),
        shown={}, codec=TEXT_OR_NULL,
    ))
    timeout_seconds: int = field(default=0, metadata=Meta(
        request=Field(minimum=0, maximum=45, description="for the fetch in all; 0: the deployment's"), shown={},
    ))
    parser: str = field(default=AUTO, metadata=Meta(
        request=Field(pattern=r"[a-z0-9_-]{1,32}(:[A-Za-z0-9_.-]{1,128})?"), shown={},
    ))
    protocol: Protocol = field(default=Protocol.HTTP, metadata=Meta(
        request=Field(description="of rows without one"), shown={},
    ))
    kind: Kind = field(default=Kind.UNKNOWN, metadata=Meta(request=Field(), shown={}))
    slots: int = field(default=1, metadata=Meta(
        request=Field(
            minimum=1, maximum=MAX_SLOTS,
            description="how many may hold a new proxy of it at once: more than one of a gateway",
        ),
        shown={},
    ))
    tags: frozenset[str] = field(default=frozenset(), metadata=Meta(
        request=Field(pattern=TAG_PATTERN, max_items=MAX_TAGS), shown={},
    ))
    enabled: bool = field(default=True, metadata=Meta(request=Field(), shown={}))
    schedule: str = field(default="", metadata=Meta(
        request=Field(description="cron(…) or rate(…), UTC; empty: every 30 minutes"), shown={},
    ))
    created_at: datetime = field(metadata=Meta(shown={}))

    claim: int = 0  # end (epoch ms) of the claim of the run that reads it
    continues: str = ""  # position of the next part of a long list
    etag: str = ""  # of the last list that was stored completely, as `last_modified`
    last_modified: str = ""
    body_hash: str = ""
    read_at: datetime | None = None  # when a list was last read, not skipped as unchanged
    last_scraped_at: datetime | None = field(default=None, metadata=Meta(shown={}))
    last_success_at: datetime | None = field(default=None, metadata=Meta(shown={}))  # with at least one row
    not_before_at: datetime | None = field(default=None, metadata=Meta(shown={}))  # the server sent Retry-After
    stale_notified_at: datetime | None = field(default=None, metadata=Meta(stored="stale_told_at"))
    rows: int = field(default=0, metadata=Meta(shown={}))  # of the last list: valid and rejected
    valid: int = field(default=0, metadata=Meta(shown={}))
    new: int = field(default=0, metadata=Meta(shown={}))
    rejected: Mapping[str, int] = field(default_factory=dict, metadata=Meta(
        shown={"description": "How many rows of the last list were skipped, by reason"},
    ))
    held_back: Mapping[str, int] = field(default_factory=dict, metadata=Meta(
        shown={"description": "How many of its proxies were held back, by the bound that did"},
    ))
    new_on: str = ""  # the day (UTC) that `new_today` counts
    new_today: int = 0
    exclusive: int = field(default=0, metadata=Meta(
        shown={"type": ["integer", "null"], "description": "Proxies that no other source lists"},
    ))
    aged_count: int = field(default=0, metadata=Meta(stored="aged"))  # proxies of the last list, checked, a day old or more
    alive: int = 0  # of these
    baseline_rows: int = field(default=0, metadata=Meta(stored="usual"))  # rows of a good list, smoothed
    successes: int = 0  # good lists since it was created, changed or accepted
    anomaly_streak: int = field(default=0, metadata=Meta(stored="suspicions"))  # consecutive lists that looked wrong
    suspicion: str = field(default="", metadata=Meta(shown={}, codec=TEXT_OR_NULL))  # reason of the last of them
    empty_streak: int = field(default=0, metadata=Meta(stored="barren"))  # consecutive lists without a working proxy
    trend: tuple[int, ...] = field(default=(), metadata=Meta(shown={"description": "Good rows of the last lists"}))
    consecutive_failures: int = field(default=0, metadata=Meta(shown={}))
    last_error: str = field(default="", metadata=Meta(shown={}))
    # fmt: on

    SHOWN: ClassVar[Mapping[str, Schema]] = {
        "id": TEXT,
        "inline_bytes": {**INTEGER, "description": "The list itself may hold passwords: only its size is shown"},
        "health": one_of(*Health),
        "alive_yield": {**nullable(FRACTION), "description": "Share of a day's new proxies that lived a day later"},
    }

    @property
    def id(self) -> str:
        """The source's id."""
        return self.source_id

    @property
    def inline_bytes(self) -> int:
        """Size of the inline list."""
        return len(self.inline.encode())

    @property
    def health(self) -> Health:
        """healthy, suspect, quarantined or disabled."""
        return health(enabled=self.enabled, anomaly_streak=self.anomaly_streak)

    @property
    def is_judged(self) -> bool:
        """True if caps and the health rule apply: for lists of strangers, not for the operator's own or a provider's."""
        return bool(self.url) and not self.expect_one_network

    @property
    def alive_yield(self) -> float | None:
        """Share of its proxies that work a day after they were found (4 decimals); None while none is that old."""
        return round(self.alive / self.aged_count, 4) if self.aged_count else None

    @property
    def fingerprint(self) -> bytes:
        """16 bytes that change with any setting that the rows written for this source depend on."""
        parts = (str(self.created_at.timestamp()), str(self.allow_private), *sorted(self.tags))
        return blake2b("\0".join(parts).encode(), digest_size=16).digest()
