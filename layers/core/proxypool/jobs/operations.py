"""The jobs' routes, as the OpenAPI document tells of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from proxypool.errors import IdempotencyConflict, VersionConflict
from proxypool.jobs.api import MAX_JOBS, job_fields
from proxypool.jobs.domains import DOMAIN_FIELDS
from proxypool.jobs.job import JobState
from proxypool.jobs.service import QUERY_FIELDS
from proxypool.operation import (
    ANYTHING,
    INSTANT,
    NUMBER,
    SHARE,
    TEXT,
    TRUTH,
    WHOLE,
    Operation,
    Schema,
    maybe,
    one_of,
    ref,
    rows,
    shape,
)
from proxypool.settings import Settings
from proxypool.web import schema_of

SCHEMAS: Final[Mapping[str, Schema]] = {
    "Job": shape(
        id=TEXT,
        state=one_of(*JobState),
        url=TEXT,
        method=TEXT,
        session_id=maybe(TEXT),
        batch=maybe(TEXT),
        runs=WHOLE,
        replays=WHOLE,
        attempts=WHOLE,
        max_attempts=WHOLE,
        processed=TRUTH,
        reason=maybe(TEXT),
        received_bytes=WHOLE,
        created_at=INSTANT,
        updated_at=INSTANT,
    ),
    "JobId": shape(id=TEXT),
    "Result": {
        "type": "object",
        "properties": {
            "job_id": TEXT,
            "url": TEXT,
            "status": WHOLE,
            "headers": {"type": "object"},
            "fetched_at": INSTANT,
            "exit_ip": maybe(TEXT),
            "proxy_id": maybe(TEXT),
            "attempts": WHOLE,
            "robots_ignored": {**TEXT, "description": "The operator's reason, where robots.txt was not asked"},
            "data": ANYTHING,
            "error": {**TEXT, "description": "Why the transform failed; `data` is the raw page then"},
            "expires_in_seconds": {**WHOLE, "description": "Of `url`, where the result is too large for an answer"},
        },
        "required": ["url"],
    },
    "Domain": shape(
        name=TEXT, requests_per_second=NUMBER, concurrency=WHOLE, robots=TRUTH, reason=TEXT, rotate_denied=TRUTH,
        allow_http=TRUTH,
    ),
    "Batch": shape(id=TEXT, progress=SHARE, jobs=WHOLE, states=shape(**{state.value: WHOLE for state in JobState})),
}  # fmt: skip
"""The shapes of the answers."""


def operations(settings: Settings) -> tuple[Operation, ...]:
    """The routes, with the limits of these settings."""
    one = schema_of(job_fields(settings))
    many = shape(jobs={**rows(one), "minItems": 1, "maxItems": MAX_JOBS})
    return (
        Operation(
            route="POST /jobs", name="submitJobs", summary="Queue a page, or many, to be fetched once",
            description="The same id again is the same job. Without one the id is a digest of the request.",
            schema={"oneOf": [one, many]}, errors=(IdempotencyConflict,),
            answers={202: {"oneOf": [ref("JobId"), shape(jobs=rows(ref("JobId")))]}},
        ),
        Operation(
            route="GET /jobs", name="listJobs", summary="Your jobs in one state", query=QUERY_FIELDS,
            answers={200: shape(jobs=rows(ref("Job")), next=maybe(TEXT))},
        ),
        Operation(route="GET /jobs/{id}", name="readJob", summary="One job", answers={200: ref("Job")}),
        Operation(
            route="DELETE /jobs/{id}", name="removeJob", summary="Remove a job and its result", answers={204: None}
        ),
        Operation(
            route="GET /jobs/{id}/result", name="readResult", summary="The result of the last run that had one",
            answers={200: ref("Result")},
        ),
        Operation(
            route="POST /jobs/{id}/replay", name="replayJob", summary="Run a job again that is over",
            description="The old result stays until it is replaced.",
            answers={202: ref("Job")}, errors=(VersionConflict,),
        ),
        Operation(
            route="GET /batches/{id}", name="readBatch", summary="How far a batch is", answers={200: ref("Batch")}
        ),
        Operation(
            route="GET /domains", name="listDomains", summary="The domains that jobs may fetch from",
            answers={200: shape(domains=rows(ref("Domain")))},
        ),
        Operation(
            route="PUT /domains/{id}", name="allowDomain", summary="Allow a domain and its subdomains by these rules",
            body=DOMAIN_FIELDS, answers={200: ref("Domain")},
        ),
        Operation(
            route="DELETE /domains/{id}", name="forbidDomain", summary="Forbid a domain again", answers={204: None}
        ),
    )  # fmt: skip
