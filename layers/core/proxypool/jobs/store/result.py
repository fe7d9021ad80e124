"""Storage of results: compressed JSON, in the row of the job if small, else in S3 under the token of the run."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from typing import Any, Final

from proxypool import aws
from proxypool.errors import ProxyPoolError
from proxypool.jobs.job import Job

MAX_ROW_BYTES: Final = 200_000  # an item holds at most 400 KB, the request included
MAX_RESPONSE_BYTES: Final = 4_000_000  # a Lambda response holds 6 MB
LINK_SECONDS: Final = 900
RESULTS_PREFIX: Final = "results/"


class ResultTooLarge(ProxyPoolError):
    """The result is larger than the pool stores; `size` in bytes of JSON."""

    def __init__(self, size: int) -> None:
        super().__init__(f"{size} bytes")
        self.size = size


@dataclass(frozen=True, slots=True)
class Results:
    """Stores results. An object that no row refers to (its run was overtaken) is deleted by the lifecycle rule of the bucket."""

    bucket: str
    max_bytes: int

    def store(self, job: Job, value: Any) -> tuple[bytes | None, str]:
        """Returns the packed result for the row, or None and its S3 key after storing it there. Raises ResultTooLarge before it stores anything."""
        text = json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
        if len(text) > self.max_bytes:
            raise ResultTooLarge(len(text))
        packed = gzip.compress(text, 6, mtime=0)
        if len(packed) <= MAX_ROW_BYTES and len(text) <= MAX_RESPONSE_BYTES:
            return packed, ""
        key = f"{RESULTS_PREFIX}{job.key}/{job.token}.json.gz"
        aws.client("s3").put_object(
            Bucket=self.bucket, Key=key, Body=packed, ContentType="application/json", ContentEncoding="gzip",
            ServerSideEncryption="AES256",
        )  # fmt: skip
        return None, key

    def load(self, job: Job, packed: bytes | None) -> dict[str, Any] | None:
        """The result, or `{"url": …}` (presigned) if it is too large for a response; None if there is none."""
        if packed is None and job.result_key:
            response = aws.client("s3").get_object(Bucket=self.bucket, Key=job.result_key)
            packed = response["Body"].read()
        if packed is None:
            return None
        text = gzip.decompress(packed)
        if len(text) <= MAX_RESPONSE_BYTES:
            result: dict[str, Any] = json.loads(text)
            return result
        params = {"Bucket": self.bucket, "Key": job.result_key}
        link = aws.client("s3").generate_presigned_url("get_object", Params=params, ExpiresIn=LINK_SECONDS)
        return {"url": link, "expires_in_seconds": LINK_SECONDS}

    def delete(self, job: Job) -> None:
        """Deletes the S3 object of the result, if there is one."""
        if job.result_key:
            aws.client("s3").delete_object(Bucket=self.bucket, Key=job.result_key)
