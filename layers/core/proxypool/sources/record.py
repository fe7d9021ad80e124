"""A source: where a list is, how it is read, and how it has fared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from proxypool.proxies.proxy import Kind, Protocol
from proxypool.sources.formats import AUTO


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What the operator said (exactly one of `url`, `inline`, `path`) and, below, what the scrapes found."""

    source_id: str
    name: str = ""
    url: str = ""
    inline: str = ""
    path: str = ""  # a file, on a laptop only
    allow_http: bool = False
    parser: str = AUTO
    protocol: Protocol = Protocol.HTTP  # of rows that name none
    kind: Kind = Kind.UNKNOWN
    tags: frozenset[str] = frozenset()
    enabled: bool = True
    schedule: str = ""  # cron(…) or rate(…); empty: the format's default
    created_at: datetime

    etag: str = ""  # of the last list that was stored to its end
    last_scraped_at: datetime | None = None
    last_success_at: datetime | None = None  # with at least one row
    not_before_at: datetime | None = None  # the source asked for a pause (Retry-After)
    stale_told_at: datetime | None = None
    rows: int = 0  # of the last list: good ones and rejected ones
    valid: int = 0
    new: int = 0
    rejected: Mapping[str, int] = field(default_factory=dict)
    consecutive_failures: int = 0
    last_error: str = ""

    @property
    def health(self) -> str:
        """`new` (never scraped), `healthy`, `degraded` (the last list failed or held nothing) or `disabled`."""
        if not self.enabled:
            return "disabled"
        if self.last_error:
            return "degraded"
        return "new" if self.last_scraped_at is None else "healthy"
