"""The stack that a command works on, for commands that need more than the API: a deployed one by name, else the local one.

Either is known by its CloudFormation outputs. Errors of AWS become one line and an exit code.
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
    """There is no stack of that name in that account and region."""


def outputs(stack: str, region: str) -> Mapping[str, str]:
    """The outputs of a deployed stack, or, without a name, of the local one; this process's AWS clients lead there.

    Raises NoPool where no local stack runs, NoStack, or what botocore raises.
    """
    if not stack:
        return _local()
    return {output["OutputKey"]: output["OutputValue"] for output in _described(stack, region).get("Outputs", [])}


def parameters(stack: str, region: str) -> Mapping[str, str]:
    """The parameters that a deployed stack, or without a name the local one, was created or updated with; raises as `outputs`."""
    if not stack:
        _local()
    found = _described(stack or STACK_NAME, region)
    return {parameter["ParameterKey"]: parameter["ParameterValue"] for parameter in found.get("Parameters", [])}


def _described(stack: str, region: str) -> Any:
    if region:
        os.environ.update(AWS_REGION=region, AWS_DEFAULT_REGION=region)
    try:
        (found,) = aws.client("cloudformation").describe_stacks(StackName=stack)["Stacks"]
    except ClientError as error:
        if "does not exist" in error.response["Error"].get("Message", ""):
            raise NoStack(f"there is no stack {stack} in this account and region") from error
        raise
    return found


def _local() -> Mapping[str, str]:
    file = find_stack()
    if file is None:
        raise NoPool("no stack runs in this folder: name a deployed one with --stack")
    found = read_stack(file)
    os.environ.update(credentials(found["access_key"]), AWS_ENDPOINT_URL=found["endpoint_url"])
    outputs: Mapping[str, str] = found["outputs"]
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
        fail(Exit.FAILED, f"the stack has no output {error}: it is not a proxy pool", as_json)


def _failed(text: str, code: str | None, as_json: bool) -> NoReturn:
    fail(Exit.CREDENTIALS if code in NOT_ALLOWED else Exit.FAILED, text, as_json)
