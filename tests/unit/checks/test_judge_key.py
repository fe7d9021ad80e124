"""The judge's key in Secrets Manager and its cache."""

from __future__ import annotations

import time
from collections.abc import Iterator

import boto3
import pytest
from moto import mock_aws
from proxypool import aws
from proxypool.checks.judge import key


@pytest.fixture
def arn(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    with mock_aws():
        aws.client.cache_clear()
        yield boto3.client("secretsmanager").create_secret(Name="judge", SecretString="old")["ARN"]
    aws.client.cache_clear()


def test_a_rotated_key_is_read_within_five_minutes(arn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Input 85: the old value is not cached for longer."""
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    assert key.judge_key(arn) == b"old"
    boto3.client("secretsmanager").put_secret_value(SecretId=arn, SecretString="new")

    monkeypatch.setattr(time, "monotonic", lambda: now + 299)
    assert key.judge_key(arn) == b"old"
    monkeypatch.setattr(time, "monotonic", lambda: now + 300)
    assert key.judge_key(arn) == b"new"
