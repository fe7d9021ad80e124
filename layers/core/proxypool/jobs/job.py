"""A job: one page to fetch, for one owner. Its request, its states, and the id that makes the same request the same job. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from hashlib import blake2b
from typing import Any, Final

from proxypool.network.address import parse_url

ID_BYTES: Final = 16


class JobState(StrEnum):
    """queued → running → done | failed | blocked; a replay goes back to queued."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    BLOCKED = "blocked"  # the target bans, limits or denies us: not a fault of the page

    @property
    def is_over(self) -> bool:
        """Whether the job has ended; only a replay changes it."""
        return self in (JobState.DONE, JobState.FAILED, JobState.BLOCKED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Crawl:
    """How a page leads to further ones. `depth` links away at most, `max_pages` in all; `include` are parts of a URL, one of
    which it must contain.
    """

    depth: int
    max_pages: int
    same_domain: bool = True
    include: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """The request. `url` is in the canonical form of `parse_url` (host in ASCII). `lease` are filters of POST /leases; `transform` is its name and options; `batch` names the jobs that
    belong together.
    """

    url: str
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str = ""
    session_id: str = ""
    lease: Mapping[str, Any] = field(default_factory=dict)
    max_attempts: int = 3
    transform: Mapping[str, Any] = field(default_factory=lambda: {"name": "raw"})
    must_contain: tuple[str, ...] = ()
    must_not_contain: tuple[str, ...] = ()
    allow_plaintext_secrets: bool = False
    crawl: Crawl | None = None
    batch: str = ""

    @property
    def host(self) -> str:
        """The target's canonical host; raises AddressRefused where `url` is not canonical."""
        return parse_url(self.url, allow_http=True).host

    def text(self) -> str:
        """The request in its one canonical form."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))

    def digest(self) -> str:
        """The default job id: 32 hex digits of a digest of the canonical request without its batch."""
        return blake2b(replace(self, batch="").text().encode(), digest_size=ID_BYTES).hexdigest()

    @classmethod
    def parse(cls, text: str) -> JobRequest:
        """The request that `text()` wrote; members of a newer version are ignored."""
        value = json.loads(text)
        known = {name: value[name] for name in cls.__slots__ if name in value}
        for name in ("must_contain", "must_not_contain"):
            known[name] = tuple(known.get(name) or ())
        crawl = known.get("crawl")
        if crawl:
            known["crawl"] = Crawl(**{**crawl, "include": tuple(crawl["include"])})
        return cls(**known)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job's row. Instants in epoch milliseconds; `runs` counts every start, `replays` the requested ones."""

    owner: str
    id: str
    request: JobRequest
    state: JobState = JobState.QUEUED
    runs: int = 0
    replays: int = 0
    token: str = ""  # of the run that may write the result
    deadline_ms: int = 0  # when that run counts as dead
    attempts: int = 0  # requests of the last run that ended
    processed: bool = False  # whether a result is stored
    reason: str = ""
    result_key: str = ""  # in S3, where it is not in the row
    received_bytes: int = 0
    created_ms: int = 0
    updated_ms: int = 0

    @property
    def key(self) -> str:
        """The row's key, which is all that a message holds."""
        return job_key(self.owner, self.id)


def job_key(owner: str, job_id: str) -> str:
    """The row's key. Two owners' jobs of one id are two jobs; a job id has no slash, so the key can be split again."""
    return f"{owner}/{job_id}"


def split_key(key: str) -> tuple[str, str]:
    """The owner and the job id of a row's key."""
    owner, _, job_id = key.rpartition("/")
    return owner, job_id
