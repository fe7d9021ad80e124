"""A job: one page to fetch for one owner. Its request, its states, and its id, which is equal for equal requests. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from hashlib import blake2b
from typing import Any, ClassVar, Final

from proxypool import clock
from proxypool.http.codec import TEXT_OR_NULL, Codec, Meta
from proxypool.http.fields import to_arguments
from proxypool.http.operation import INSTANT, Schema
from proxypool.http.web import Field
from proxypool.leases.sessions.store import SESSION_ID_PATTERN
from proxypool.network.address import parse_http_url

ID_BYTES: Final = 16
JOB_ID_PATTERN: Final = r"[A-Za-z0-9._-]{1,64}"  # also of a batch
_TEXT: Final = r"[\s\S]{1,1000}"


class JobState(StrEnum):
    """queued → running → done | failed | blocked; a replay goes back to queued."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    BLOCKED = "blocked"  # the target bans, limits or denies us: not a fault of the page

    @property
    def is_over(self) -> bool:
        """True if the job has ended; only a replay changes it."""
        return self in (JobState.DONE, JobState.FAILED, JobState.BLOCKED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Crawl:
    """How further pages follow from a page's links."""

    # fmt: off
    depth: int = field(default=1, metadata=Meta(
        request=Field(minimum=0, maximum=20, description="Links away from this page, at most"),
    ))
    max_pages: int = field(default=100, metadata=Meta(
        request=Field(minimum=1, maximum=100_000, description="Pages in all, this one included"),
    ))
    same_domain: bool = field(default=True, metadata=Meta(request=Field(description="Only links to the same host")))
    include: tuple[str, ...] = field(default=(), metadata=Meta(
        request=Field(pattern=_TEXT, max_items=20, description="One of these stands in the link"),
    ))
    # fmt: on


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """The request. `url` is in the canonical form of `parse_url` (host in ASCII); `lease` are filters of POST /leases."""

    # fmt: off
    url: str = field(metadata=Meta(
        request=Field(description="The page; https, unless the operator allows http"), shown={},
    ))
    method: str = field(default="GET", metadata=Meta(
        request=Field(choices=("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")), shown={},
    ))
    headers: Mapping[str, str] = field(default_factory=dict, metadata=Meta(
        request=Field(description="Sent to the page's own origin; {token:name} is the session's"),
    ))
    body: str = field(default="", metadata=Meta(request=Field(pattern=r"[\s\S]{0,200000}")))
    session_id: str = field(default="", metadata=Meta(
        request=Field(pattern=SESSION_ID_PATTERN, description="Cookies, tokens and one exit are kept"),
        shown={}, codec=TEXT_OR_NULL,
    ))
    lease: Mapping[str, Any] = field(default_factory=dict, metadata=Meta(
        request=Field(description="Filters of POST /leases"),
    ))
    max_attempts: int = field(default=3, metadata=Meta(request=Field(minimum=1), shown={}))
    transform: Mapping[str, Any] = field(default_factory=lambda: {"name": "raw"}, metadata=Meta(
        request=Field(description="Its name and options"),
    ))
    must_contain: tuple[str, ...] = field(default=(), metadata=Meta(
        request=Field(pattern=_TEXT, max_items=20, description="Else it is a ban page"),
    ))
    must_not_contain: tuple[str, ...] = field(default=(), metadata=Meta(
        request=Field(pattern=_TEXT, max_items=20, description="Else it is a ban page"),
    ))
    allow_plaintext_secrets: bool = field(default=False, metadata=Meta(
        request=Field(description="Cookies and tokens by plain http, too"),
    ))
    crawl: Crawl | None = field(default=None, metadata=Meta(
        request=Field(description="Follow the page's links; each page is a job of the same batch"),
    ))
    batch: str = field(default="", metadata=Meta(
        request=Field(pattern=JOB_ID_PATTERN, description="Names jobs that belong together"), shown={}, codec=TEXT_OR_NULL,
    ))
    # fmt: on

    @property
    def host(self) -> str:
        """The target's canonical host; raises AddressRefused where `url` is not canonical."""
        return parse_http_url(self.url, allow_http=True).host

    def text(self) -> str:
        """The request in its one canonical form."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))

    def digest(self) -> str:
        """The default job id: 32 hex digits of a digest of the canonical request without its batch."""
        return blake2b(replace(self, batch="").text().encode(), digest_size=ID_BYTES).hexdigest()

    @classmethod
    def parse(cls, text: str) -> JobRequest:
        """The request that `text()` wrote; members of a newer version are ignored."""
        return cls(**to_arguments(cls, json.loads(text)))


_REQUEST: Final = Codec(str, {}, store=JobRequest.text, load=JobRequest.parse, record=JobRequest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job's row. Instants in epoch milliseconds; `runs` counts every start, `replays` the requested ones."""

    # fmt: off
    owner: str = field(metadata=Meta(stored=""))  # in the key, with the id
    id: str = field(metadata=Meta(stored="", shown={}))
    request: JobRequest = field(metadata=Meta(shown={}, codec=_REQUEST))
    state: JobState = field(default=JobState.QUEUED, metadata=Meta(shown={}))
    runs: int = field(default=0, metadata=Meta(shown={}))
    replays: int = field(default=0, metadata=Meta(shown={}))
    token: str = ""  # of the run that may write the result
    deadline_ms: int = 0  # when that run counts as dead
    attempts: int = field(default=0, metadata=Meta(shown={}))  # completed requests of the last run
    processed: bool = field(default=False, metadata=Meta(shown={}))  # whether a result is stored
    reason: str = field(default="", metadata=Meta(shown={}, codec=TEXT_OR_NULL))
    result_key: str = ""  # in S3, if it is not in the row
    received_bytes: int = field(default=0, metadata=Meta(shown={}))
    created_ms: int = 0
    updated_ms: int = 0
    # fmt: on

    SHOWN: ClassVar[Mapping[str, Schema]] = {"created_at": INSTANT, "updated_at": INSTANT}

    @property
    def created_at(self) -> str:
        """`created_ms` as ISO 8601."""
        return clock.iso(clock.from_epoch(self.created_ms / 1000))

    @property
    def updated_at(self) -> str:
        """`updated_ms` as ISO 8601."""
        return clock.iso(clock.from_epoch(self.updated_ms / 1000))

    @property
    def key(self) -> str:
        """The row's key, the only content of its message."""
        return job_key(self.owner, self.id)


def job_key(owner: str, job_id: str) -> str:
    """The row's key. Two owners' jobs of one id are two jobs; a job id has no slash, so the key can be split again."""
    return f"{owner}/{job_id}"


def split_key(key: str) -> tuple[str, str]:
    """The owner and the job id of a row's key."""
    owner, _, job_id = key.rpartition("/")
    return owner, job_id
