"""Access to a deployed stack by name, or to the local one, for commands that need AWS besides the API.

Errors of AWS become one line and an exit code.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NoReturn

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    HTTPClientError,
    NoCredentialsError,
    NoRegionError,
    PartialCredentialsError,
    ProfileNotFound,
    TokenRetrievalError,
)
from botocore.exceptions import ConnectionError as NoConnection
from proxypool_client.cli.output import Exit, fail
from proxypool_client.errors import NoPool
from proxypool_client.local_stack import find_stack, read_stack
from pynamodb.exceptions import PynamoDBException

from proxypool import aws
from proxypool.local.emulation.access import STACK_NAME, credentials

NOT_ALLOWED: Final = frozenset(
    {
        "AccessDenied", "AccessDeniedException", "ExpiredToken", "ExpiredTokenException", "InvalidClientTokenId",
        "InvalidSignatureException", "SignatureDoesNotMatch", "UnrecognizedClientException",
    }
)  # fmt: skip
"""Error codes for missing, wrong or expired credentials, and for missing permissions."""
UNUSABLE: Final = (
    NoCredentialsError,
    PartialCredentialsError,
    CredentialRetrievalError,
    TokenRetrievalError,
    ProfileNotFound,
)


class NoStack(NoPool):
    """The account and region have no stack of that name."""


def outputs(stack: str, region: str) -> Mapping[str, str]:
    """The outputs of a deployed stack, or of the local one if the name is empty; configures this process's AWS clients for it.

    Raises NoPool if no local stack runs, NoStack, or an error of botocore.
    """
    if not stack:
        return _local()
    return {output["OutputKey"]: output["OutputValue"] for output in _describe(stack, region).get("Outputs", [])}


def parameters(stack: str, region: str) -> Mapping[str, str]:
    """The parameters of a deployed stack, or of the local one if the name is empty; raises the same errors as `outputs`."""
    if not stack:
        _local()
    description = _describe(stack or STACK_NAME, region)
    return {parameter["ParameterKey"]: parameter["ParameterValue"] for parameter in description.get("Parameters", [])}


def _describe(stack: str, region: str) -> Any:
    if region:
        os.environ.update(AWS_REGION=region, AWS_DEFAULT_REGION=region)
    try:
        (description,) = aws.client("cloudformation").describe_stacks(StackName=stack)["Stacks"]
    except ClientError as error:
        if "does not exist" in error.response["Error"].get("Message", ""):
            raise NoStack(f"stack {stack} does not exist in this account and region") from error
        raise
    return description


def _local() -> Mapping[str, str]:
    file = find_stack()
    if file is None:
        raise NoPool("no stack is running in this folder; use --stack for a deployed one")
    local = read_stack(file)
    os.environ.update(credentials(local["access_key"]), AWS_ENDPOINT_URL=local["endpoint_url"])
    outputs: Mapping[str, str] = local["outputs"]
    return outputs


@contextmanager
def aws_errors(as_json: bool) -> Iterator[None]:
    """Turns errors of boto3 and pynamodb into one line on stderr and an exit code."""
    try:
        yield
    except NoStack as error:
        fail(Exit.EMPTY, str(error), as_json)
    except NoRegionError:
        fail(Exit.USAGE, "no AWS region: set --region or AWS_REGION", as_json)
    except UNUSABLE as error:
        fail(Exit.CREDENTIALS, str(error), as_json)
    except (HTTPClientError, NoConnection):
        fail(Exit.UNREACHABLE, "AWS does not respond", as_json)
    except ClientError as error:
        detail = error.response["Error"]
        text = f"{error.operation_name} failed: {detail.get('Code')}: {detail.get('Message')}"
        _failed(text, detail.get("Code"), as_json)
    except PynamoDBException as error:
        _failed(str(error.msg), error.cause_response_code, as_json)
    except BotoCoreError as error:
        fail(Exit.FAILED, str(error), as_json)
    except KeyError as error:
        fail(Exit.FAILED, f"the stack has no output {error}; is it a proxy pool?", as_json)


def _failed(text: str, code: str | None, as_json: bool) -> NoReturn:
    fail(Exit.CREDENTIALS if code in NOT_ALLOWED else Exit.FAILED, text, as_json)
