"""The fields of POST /jobs, their validation, and a job as JSON."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from proxypool import clock
from proxypool.config.settings import Settings
from proxypool.errors import AddressRefused, Invalid
from proxypool.http.web import Field, read_fields
from proxypool.jobs import transforms
from proxypool.jobs.fetch.domains import Domains
from proxypool.jobs.fetch.page import SAFE_HEADERS
from proxypool.jobs.job import Crawl, Job, JobRequest
from proxypool.leases.api import lease_fields
from proxypool.leases.sessions.store import SESSION_ID
from proxypool.network.address import Url, parse_public_url

MAX_JOBS: Final = 100  # of one request
MAX_BODY_BYTES: Final = 1_000_000  # of POST /jobs
MAX_REQUEST_BYTES: Final = 150_000  # of one job's request, as its row holds it beside a result of 200 KB
MAX_HEADERS: Final = 50
MAX_HEADER_CHARS: Final = 4_096
JOB_ID: Final = r"[A-Za-z0-9._-]{1,64}"
_JOB_ID: Final = re.compile(JOB_ID)
_HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}")
_OURS: Final = frozenset({"host", "content-length", "transfer-encoding", "connection", "keep-alive", "te", "trailer", "upgrade",
                          "expect", "cookie", "accept-encoding"})  # fmt: skip
_NOT_FOR_JOBS: Final = ("count", "at_least", "distinct_exit", "target", "session_id", "exclude", "ttl_seconds")
_TEXT: Final = r"[\s\S]{1,1000}"

CRAWL_FIELDS: Final = {
    "depth": Field(kind=int, default=1, minimum=0, maximum=20, description="Links away from this page, at most"),
    "max_pages": Field(
        kind=int, default=100, minimum=1, maximum=100_000, description="Pages in all, this one included"
    ),
    "same_domain": Field(kind=bool, default=True, description="Only links to the same host"),
    "include": Field(kind=list, default=(), pattern=_TEXT, max_items=20, description="One of these stands in the link"),
}


def job_fields(settings: Settings) -> dict[str, Field]:
    """The members of a job."""
    return {
        "url": Field(kind=str, required=True, description="The page; https, unless the operator allows http"),
        "method": Field(kind=str, default="GET", choices=("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")),
        "headers": Field(kind=dict, default={}, description="Sent to the page's own origin; {token:name} is the session's"),
        "body": Field(kind=str, default="", pattern=r"[\s\S]{0,200000}"),
        "session_id": Field(kind=str, default="", pattern=SESSION_ID, description="Cookies, tokens and one exit are kept"),
        "lease": Field(kind=dict, default={}, description="Filters of POST /leases"),
        "max_attempts": Field(kind=int, default=3, minimum=1, maximum=settings.job_max_attempts),
        "transform": Field(kind=dict, default={"name": "raw"}, description="Its name and options"),
        "must_contain": Field(kind=list, default=(), pattern=_TEXT, max_items=20, description="Else it is a ban page"),
        "must_not_contain": Field(kind=list, default=(), pattern=_TEXT, max_items=20, description="Else it is a ban page"),
        "allow_plaintext_secrets": Field(kind=bool, default=False, description="Cookies and tokens by plain http, too"),
        "crawl": Field(kind=dict, description="Follow the page's links; each page is a job of the same batch"),
        "batch": Field(kind=str, default="", pattern=JOB_ID, description="Names jobs that belong together"),
        "job_id": Field(kind=str, default="", pattern=JOB_ID, description="Default: a digest of the request"),
    }  # fmt: skip


def read_jobs(body: Mapping[str, Any], owner: str, *, settings: Settings, domains: Domains) -> list[Job]:
    """The jobs of a request: one, or many under `jobs`. Raises Invalid naming each field, e.g. `jobs[3].url`."""
    if "jobs" not in body:
        return [_job(body, owner, settings, domains, "")]
    many = body["jobs"]
    if len(body) > 1 or not isinstance(many, list) or not 1 <= len(many) <= MAX_JOBS:
        raise Invalid([{"field": "jobs", "message": f"must be a list of 1 to {MAX_JOBS} jobs, alone"}])
    errors: list[Mapping[str, str]] = []
    found: list[Job] = []
    for index, one in enumerate(many):
        try:
            found.append(_job(one, owner, settings, domains, f"jobs[{index}]."))
        except Invalid as error:
            errors += error.extra["errors"]
    if errors:
        raise Invalid(errors)
    return found


def job_json(job: Job) -> dict[str, Any]:
    """A job as JSON, without its headers, body and result."""
    return {
        "id": job.id, "state": job.state.value, "url": job.request.url, "method": job.request.method,
        "session_id": job.request.session_id or None, "batch": job.request.batch or None,
        "runs": job.runs, "replays": job.replays, "attempts": job.attempts, "max_attempts": job.request.max_attempts,
        "processed": job.processed, "reason": job.reason or None, "received_bytes": job.received_bytes,
        "created_at": clock.iso(clock.from_epoch(job.created_ms / 1000)),
        "updated_at": clock.iso(clock.from_epoch(job.updated_ms / 1000)),
    }  # fmt: skip


def _job(body: Any, owner: str, settings: Settings, domains: Domains, prefix: str) -> Job:
    if not isinstance(body, dict):
        raise Invalid([{"field": prefix.rstrip(".") or "body", "message": "must be an object"}])
    values = _fields(body, job_fields(settings), prefix)
    url = _url(values["url"], settings)
    wrong = {"url": url} if isinstance(url, str) else dict(_wrong_target(url, values, domains))
    wrong |= _wrong_headers(values["headers"])
    wrong |= {f"transform.{name}": text for name, text in _wrong_transform(values["transform"]).items()}
    if values["crawl"] is not None and not values["batch"]:
        wrong["batch"] = "required with crawl"
    if wrong:
        raise Invalid([{"field": prefix + name, "message": text} for name, text in wrong.items()])
    filters = {name: field for name, field in lease_fields(settings).items() if name not in _NOT_FOR_JOBS}
    lease = _fields(values["lease"], filters, f"{prefix}lease.")
    crawl = values["crawl"] is not None and Crawl(**_fields(values["crawl"], CRAWL_FIELDS, f"{prefix}crawl."))
    job_id = values.pop("job_id")
    given = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in lease.items()
        if name in values["lease"]
    }
    request = JobRequest(**values | {"url": str(url), "lease": given, "crawl": crawl or None})
    if len(request.text()) > MAX_REQUEST_BYTES:
        raise Invalid([{"field": f"{prefix}body", "message": f"the request is over {MAX_REQUEST_BYTES} bytes as JSON"}])
    return Job(owner=owner, id=job_id or request.digest(), request=request)


def _fields(body: Mapping[str, Any], fields: Mapping[str, Field], prefix: str) -> dict[str, Any]:
    try:
        return read_fields(body, fields)
    except Invalid as error:
        raise Invalid([{**one, "field": prefix + one["field"]} for one in error.extra["errors"]]) from error


def _url(text: str, settings: Settings) -> Url | str:
    """The parsed URL, which is what the job stores and every later step reads; else why it is refused."""
    try:
        return parse_public_url(text, allow_http=True, allow_loopback=settings.allow_loopback)
    except AddressRefused as error:
        return f"is refused: {error.reason}"


def _wrong_target(url: Url, values: Mapping[str, Any], domains: Domains) -> dict[str, str]:
    domain = domains.find(url.host)
    if domain is None:
        return {"url": f"domain {url.host} is not allowed"}
    if url.scheme == "http" and not domain.allow_http:
        return {"url": "plain http is not allowed"}
    secret = any(name.lower() not in SAFE_HEADERS | {"content-type"} for name in values["headers"])
    if url.scheme == "http" and secret and not values["allow_plaintext_secrets"]:
        return {"headers": "would be sent over plain http; set allow_plaintext_secrets to allow that"}
    return {}


def _wrong_headers(headers: Mapping[str, Any]) -> dict[str, str]:
    if len(headers) > MAX_HEADERS:
        return {"headers": f"at most {MAX_HEADERS}"}
    wrong: dict[str, str] = {}
    for name, value in headers.items():
        if not _HEADER.fullmatch(name) or name.lower() in _OURS or name.lower().startswith("proxy-"):
            wrong[f"headers.{name[:64]}"] = "cannot be set"
        elif (
            not isinstance(value, str) or len(value) > MAX_HEADER_CHARS or not (value.isascii() and value.isprintable())
        ):
            wrong[f"headers.{name}"] = f"must be printable ASCII, at most {MAX_HEADER_CHARS} characters"
    return wrong


def _wrong_transform(said: Mapping[str, Any]) -> dict[str, str]:
    name = said.get("name")
    found = transforms.find(name) if isinstance(name, str) else None
    if found is None:
        return {"name": "must be one of " + ", ".join(transforms.names())}
    return dict(found.check({key: value for key, value in said.items() if key != "name"}))


def is_job_id(text: str) -> bool:
    """Whether the text is a valid job id."""
    return _JOB_ID.fullmatch(text) is not None
