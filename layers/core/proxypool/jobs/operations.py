"""The routes of jobs, batches and domains."""

from __future__ import annotations

from collections.abc import Mapping

from proxypool.config.settings import Settings
from proxypool.errors import IdempotencyConflict, VersionConflict
from proxypool.http.caller import Right
from proxypool.http.fields import json_schema
from proxypool.http.operation import (
    ANYTHING,
    BOOLEAN,
    FRACTION,
    INSTANT,
    INTEGER,
    NUMBER,
    TEXT,
    Operation,
    Schema,
    array,
    nullable,
    object_,
    ref,
)
from proxypool.http.web import schema_of
from proxypool.jobs.api import MAX_BODY_BYTES, MAX_JOBS, job_fields
from proxypool.jobs.fetch.domains import DOMAIN_FIELDS, DOMAIN_NAME
from proxypool.jobs.job import JOB_ID_PATTERN, Job, JobState
from proxypool.jobs.service import LIST_JOBS_QUERY, Jobs


def schemas() -> Mapping[str, Schema]:
    """The schemas of the answers."""
    return {
        "Job": json_schema(Job),
        "JobId": object_(id=TEXT),
        "Result": {
            "type": "object",
            "properties": {
                "job_id": TEXT,
                "url": TEXT,
                "status": INTEGER,
                "headers": {"type": "object"},
                "fetched_at": INSTANT,
                "exit_ip": nullable(TEXT),
                "proxy_id": nullable(TEXT),
                "attempts": INTEGER,
                "robots_ignored": {**TEXT, "description": "The operator's reason, where robots.txt was not asked"},
                "data": ANYTHING,
                "error": {**TEXT, "description": "Why the transform failed; `data` is the raw page then"},
                "expires_in_seconds": {**INTEGER, "description": "Of `url`, where the result is too large for an answer"},
            },
            "required": ["url"],
        },
        "Domain": object_(
            name=TEXT, requests_per_second=NUMBER, concurrency=INTEGER, robots=BOOLEAN, reason=TEXT, rotate_denied=BOOLEAN,
            allow_http=BOOLEAN,
        ),
        "Batch": object_(id=TEXT, progress=FRACTION, jobs=INTEGER, states=object_(**{state.value: INTEGER for state in JobState})),
    }  # fmt: skip


def operations(settings: Settings) -> tuple[Operation[Jobs], ...]:
    """The routes, with the limits of these settings."""
    one = schema_of(job_fields(settings))
    many = object_(jobs={**array(one), "minItems": 1, "maxItems": MAX_JOBS})
    return (
        Operation(
            route="POST /jobs", name="submitJobs", summary="Queue one page or several to be fetched", right=Right.USER,
            description="The same id again is the same job. Without one the id is a digest of the request.",
            call=lambda request: request.service.submit(request.caller.owner, request.body),
            body_schema={"oneOf": [one, many]}, max_body_bytes=MAX_BODY_BYTES, errors=(IdempotencyConflict,),
            answers={202: {"oneOf": [ref("JobId"), object_(jobs=array(ref("JobId")))]}},
        ),
        Operation(
            route="GET /jobs", name="listJobs", summary="Your jobs in one state", right=Right.USER, query=LIST_JOBS_QUERY,
            call=lambda request: request.service.page(request.caller.owner, request.query),
            answers={200: object_(jobs=array(ref("Job")), next=nullable(TEXT))},
        ),
        Operation(
            route="GET /jobs/{id}", name="readJob", summary="One job", right=Right.USER, id_pattern=JOB_ID_PATTERN,
            call=lambda request: request.service.show(request.caller.owner, request.id), answers={200: ref("Job")},
        ),
        Operation(
            route="DELETE /jobs/{id}", name="removeJob", summary="Remove a job and its result", right=Right.USER,
            call=lambda request: request.service.delete(request.caller.owner, request.id), id_pattern=JOB_ID_PATTERN,
            answers={204: None},
        ),
        Operation(
            route="GET /jobs/{id}/result", name="readResult", summary="The result of the job's last successful run",
            right=Right.USER, id_pattern=JOB_ID_PATTERN,
            call=lambda request: request.service.result(request.caller.owner, request.id), answers={200: ref("Result")},
        ),
        Operation(
            route="POST /jobs/{id}/replay", name="replayJob", summary="Run a finished job again", right=Right.USER,
            description="The old result stays until it is replaced.", id_pattern=JOB_ID_PATTERN,
            call=lambda request: request.service.replay(request.caller.owner, request.id),
            answers={202: ref("Job")}, errors=(VersionConflict,),
        ),
        Operation(
            route="GET /batches/{id}", name="readBatch", summary="Progress of a batch", right=Right.USER, id_pattern=JOB_ID_PATTERN,
            call=lambda request: request.service.batch(request.caller.owner, request.id), answers={200: ref("Batch")},
        ),
        Operation(
            route="GET /domains", name="listDomains", summary="The domains that jobs may fetch from", right=Right.OPERATOR,
            call=lambda request: request.service.list_domains(), answers={200: object_(domains=array(ref("Domain")))},
        ),
        Operation(
            route="PUT /domains/{id}", name="allowDomain", summary="Allow a domain and its subdomains",
            right=Right.OPERATOR, id_pattern=DOMAIN_NAME, body=DOMAIN_FIELDS,
            call=lambda request: request.service.allow_domain(request.id, request.body), answers={200: ref("Domain")},
        ),
        Operation(
            route="DELETE /domains/{id}", name="forbidDomain", summary="Remove a domain from the allowed ones",
            right=Right.OPERATOR, id_pattern=DOMAIN_NAME,
            call=lambda request: request.service.forbid_domain(request.id), answers={204: None},
        ),
    )  # fmt: skip
