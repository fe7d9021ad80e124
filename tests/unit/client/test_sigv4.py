"""Signatures equal those of botocore."""

from __future__ import annotations

from datetime import UTC, datetime
from unittest.mock import patch

import botocore.auth
import pytest
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as BotoCredentials
from proxypool_client.sigv4 import Credentials, presign, sign

NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)
KEYS = {"access_key": "AKIDEXAMPLE", "secret_key": "wJalrXUtnFEMI/K7MDENG"}


@pytest.fixture(params=["", "token/with+signs=="])
def token(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize(
    "url",
    ["https://a.example/leases", "https://a.example/proxies?status=active&tag=a%20b&x=", "https://a.example/a%20b/~c"],
)
def test_a_request_has_the_signature_of_botocore(url: str, token: str) -> None:
    body = b'{"ttl_seconds":60}'
    request = AWSRequest("POST", url, headers={"content-type": "application/json"}, data=body)
    with patch("botocore.auth.get_current_datetime", return_value=NOW.replace(tzinfo=None)):
        botocore.auth.SigV4Auth(BotoCredentials(*KEYS.values(), token or None), "execute-api", "us-east-1").add_auth(
            request
        )
    ours = sign("POST", url, {"content-type": "application/json"}, body, service="execute-api", region="us-east-1",
                credentials=Credentials(**KEYS, session_token=token), now=NOW)  # fmt: skip
    assert ours["authorization"] == request.headers["Authorization"]


def test_a_presigned_url_has_the_signature_of_botocore(token: str) -> None:
    url = "http://cache-name/?Action=connect&User=lease"
    request = AWSRequest("GET", url)
    with patch("botocore.auth.get_current_datetime", return_value=NOW.replace(tzinfo=None)):
        botocore.auth.SigV4QueryAuth(
            BotoCredentials(*KEYS.values(), token or None), "elasticache", "us-east-1", expires=900
        ).add_auth(request)
    ours = presign(
        url,
        service="elasticache",
        region="us-east-1",
        credentials=Credentials(**KEYS, session_token=token),
        expires_seconds=900,
        now=NOW,
    )
    assert sorted(ours.partition("?")[2].split("&")) == sorted(request.url.partition("?")[2].split("&"))


def test_the_repr_of_credentials_hides_the_secret() -> None:
    """I19."""
    assert "wJalr" not in repr(Credentials(**KEYS))
