"""Results for Athena: NDJSON in S3, partitioned by day and source host. One object per result, named by the token of the
run, so that writing it twice is idempotent.
"""

from __future__ import annotations

import gzip
import json
from datetime import datetime
from typing import Any, Final

from proxypool import aws
from proxypool.jobs.job import Job

LAKE_PREFIX: Final = "lake/"


def write_row(bucket: str, job: Job, row: dict[str, Any], *, now: datetime) -> None:
    """Writes one result, e.g. under lake/day=2026-11-30/source=shop.example/."""
    line = json.dumps({"owner": job.owner, **row}, separators=(",", ":"), ensure_ascii=False) + "\n"
    key = f"{LAKE_PREFIX}day={now:%Y-%m-%d}/source={job.request.host}/{job.id}-{job.token}.ndjson.gz"
    packed = gzip.compress(line.encode(), 6, mtime=0)
    aws.client("s3").put_object(
        Bucket=bucket, Key=key, Body=packed, ContentType="application/x-ndjson", ServerSideEncryption="AES256"
    )
