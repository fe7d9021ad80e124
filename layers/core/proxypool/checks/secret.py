"""The judge's key, from Secrets Manager, at most five minutes old."""

from __future__ import annotations

import time

from proxypool import aws

CACHE_SECONDS = 300

_seen: dict[str, tuple[float, bytes]] = {}


def judge_key(secret_arn: str) -> bytes | None:
    """The key; None where the deployment's judge has none (answers are unsigned then)."""
    if not secret_arn:
        return None
    at, key = _seen.get(secret_arn, (0.0, b""))
    if not key or time.monotonic() - at >= CACHE_SECONDS:
        key = aws.client("secretsmanager").get_secret_value(SecretId=secret_arn)["SecretString"].encode()
        _seen[secret_arn] = (time.monotonic(), key)
    return key
