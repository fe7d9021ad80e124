"""The body of POST /jobs and its validation."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from proxypool.config.settings import Settings
from proxypool.errors import AddressRefused, Invalid
from proxypool.http.fields import request_fields, to_arguments
from proxypool.http.web import Field, read_fields
from proxypool.jobs import transforms
from proxypool.jobs.fetch.domains import Domains
from proxypool.jobs.fetch.page import SAFE_HEADERS
from proxypool.jobs.job import JOB_ID_PATTERN, Crawl, Job, JobRequest
from proxypool.leases.api import lease_fields
from proxypool.network.address import Url, parse_public_url

MAX_JOBS: Final = 100  # of one request
MAX_BODY_BYTES: Final = 1_000_000  # of POST /jobs
MAX_REQUEST_BYTES: Final = 150_000  # of one job's request, as its row holds it beside a result of 200 KB
MAX_HEADERS: Final = 50
MAX_HEADER_CHARS: Final = 4_096
_JOB_ID: Final = re.compile(JOB_ID_PATTERN)
_HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}")
_CONNECTION_HEADERS: Final = frozenset({
    "host", "content-length", "transfer-encoding", "connection", "keep-alive", "te", "trailer", "upgrade", "expect", "cookie",
    "accept-encoding",
})  # fmt: skip
_NOT_FOR_JOBS: Final = ("count", "at_least", "distinct_exit", "target", "session_id", "exclude", "ttl_seconds")


def job_fields(settings: Settings) -> dict[str, Field]:
    """The members of a job in POST /jobs."""
    fields = request_fields(JobRequest)
    return fields | {
        "max_attempts": replace(fields["max_attempts"], maximum=settings.job_max_attempts),
        "job_id": Field(default="", pattern=JOB_ID_PATTERN, description="Default: a digest of the request"),
    }


def read_jobs(body: Mapping[str, Any], owner: str, *, settings: Settings, domains: Domains) -> list[Job]:
    """The jobs of a request: one, or many under `jobs`. Raises Invalid naming each field, e.g. `jobs[3].url`."""
    if "jobs" not in body:
        return [_job(body, owner, settings, domains, "")]
    many = body["jobs"]
    if len(body) > 1 or not isinstance(many, list) or not 1 <= len(many) <= MAX_JOBS:
        raise Invalid([{"field": "jobs", "message": f"must be a list of 1 to {MAX_JOBS} jobs, alone"}])
    errors: list[Mapping[str, str]] = []
    jobs: list[Job] = []
    for index, one in enumerate(many):
        try:
            jobs.append(_job(one, owner, settings, domains, f"jobs[{index}]."))
        except Invalid as error:
            errors += error.extra["errors"]
    if errors:
        raise Invalid(errors)
    return jobs


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
    crawl = values["crawl"]
    if crawl is not None:
        crawl = _fields(crawl, request_fields(Crawl), f"{prefix}crawl.")
    job_id = values.pop("job_id")
    given = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in lease.items()
        if name in values["lease"]
    }
    request = JobRequest(**to_arguments(JobRequest, values | {"url": str(url), "lease": given, "crawl": crawl}))
    if len(request.text()) > MAX_REQUEST_BYTES:
        raise Invalid([{"field": f"{prefix}body", "message": f"the request is over {MAX_REQUEST_BYTES} bytes as JSON"}])
    return Job(owner=owner, id=job_id or request.digest(), request=request)


def _fields(body: Mapping[str, Any], fields: Mapping[str, Field], prefix: str) -> dict[str, Any]:
    try:
        return read_fields(body, fields)
    except Invalid as error:
        raise Invalid([{**one, "field": prefix + one["field"]} for one in error.extra["errors"]]) from error


def _url(text: str, settings: Settings) -> Url | str:
    """The parsed URL, which the job stores and every later step reads; or the error message."""
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
        if not _HEADER.fullmatch(name) or name.lower() in _CONNECTION_HEADERS or name.lower().startswith("proxy-"):
            wrong[f"headers.{name[:64]}"] = "cannot be set"
        elif (
            not isinstance(value, str) or len(value) > MAX_HEADER_CHARS or not (value.isascii() and value.isprintable())
        ):
            wrong[f"headers.{name}"] = f"must be printable ASCII, at most {MAX_HEADER_CHARS} characters"
    return wrong


def _wrong_transform(transform: Mapping[str, Any]) -> dict[str, str]:
    name = transform.get("name")
    implementation = transforms.find(name) if isinstance(name, str) else None
    if implementation is None:
        return {"name": "must be one of " + ", ".join(transforms.names())}
    return dict(implementation.check({key: value for key, value in transform.items() if key != "name"}))


def is_job_id(text: str) -> bool:
    """True if the text is a valid job id."""
    return _JOB_ID.fullmatch(text) is not None
