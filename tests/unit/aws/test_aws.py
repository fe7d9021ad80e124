"""How errors of AWS leave this package."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from proxypool import aws

REFUSED = ClientError({"Error": {"Code": "NoSuchKey", "Message": "no"}}, "GetObject")


@pytest.mark.parametrize(
    ("raised", "code"),
    [
        (REFUSED, "NoSuchKey"),
        (EndpointConnectionError(endpoint_url="https://s3.example"), ""),  # no answer, so no code
    ],
    ids=["refused", "no answer"],
)
def test_what_botocore_raises_becomes_one_error_with_the_services_code(raised: Exception, code: str) -> None:
    with pytest.raises(aws.AwsError) as error, aws.translated():
        raise raised

    assert error.value.code == code
    assert error.value.__cause__ is raised


def test_other_errors_pass() -> None:
    with pytest.raises(KeyError), aws.translated():
        raise KeyError("SecretString")
