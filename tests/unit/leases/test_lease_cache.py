"""The IAM token with which a connection to ElastiCache logs in."""

from __future__ import annotations

import pytest
from proxypool.leases.redis.cache import iam_token


def test_the_token_is_a_signed_url_without_its_scheme(monkeypatch: pytest.MonkeyPatch) -> None:
    """What ElastiCache takes as a password: host first, signed for 15 minutes; never the secret itself."""
    for name, text in {
        "AWS_REGION": "eu-central-1",
        "AWS_ACCESS_KEY_ID": "AKID",
        "AWS_SECRET_ACCESS_KEY": "hush",
    }.items():
        monkeypatch.setenv(name, text)
    monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)

    signed = iam_token("lease", "cache-main")

    assert signed.startswith("cache-main/?")
    assert all(
        part in signed
        for part in (
            "Action=connect",
            "ResourceType=ServerlessCache",
            "User=lease",
            "X-Amz-Expires=900",
            "X-Amz-Signature=",
        )
    )
    assert "hush" not in signed
