"""Translation of botocore errors."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from proxypool import aws

REFUSED = ClientError({"Error": {"Code": "NoSuchKey", "Message": "no"}}, "GetObject")


@pytest.mark.parametrize(
    ("raised", "code"),
    [
        (REFUSED, "NoSuchKey"),
        (EndpointConnectionError(endpoint_url="https://s3.example"), ""),  # no response, so no code
    ],
    ids=["refused", "no response"],
)
def test_errors_of_botocore_become_one_error_with_the_code_of_the_service(raised: Exception, code: str) -> None:
    with pytest.raises(aws.AwsError) as error, aws.translate_errors():
        raise raised

    assert error.value.code == code
    assert error.value.__cause__ is raised


def test_other_errors_are_not_translated() -> None:
    with pytest.raises(KeyError), aws.translate_errors():
        raise KeyError("SecretString")
