"""The judge's HMAC key from Secrets Manager, cached for at most five minutes."""

from __future__ import annotations

import time

from proxypool import aws

CACHE_SECONDS = 300

_cache: dict[str, tuple[float, bytes]] = {}  # by secret ARN: monotonic time of the read, key


def judge_key(secret_arn: str) -> bytes | None:
    """The key; None for an empty ARN (the judge's answers are unsigned then). Raises botocore's ClientError."""
    if not secret_arn:
        return None
    read_at, key = _cache.get(secret_arn, (0.0, b""))
    if not key or time.monotonic() - read_at >= CACHE_SECONDS:
        key = aws.client("secretsmanager").get_secret_value(SecretId=secret_arn)["SecretString"].encode()
        _cache[secret_arn] = (time.monotonic(), key)
    return key
