"""The boto3 clients: one per service and process, made at the first call. `AWS_ENDPOINT_URL` points them to the emulator."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from proxypool.errors import ProxyPoolError

_CONFIG = Config(
    connect_timeout=2,
    read_timeout=10,
    retries={"mode": "standard", "max_attempts": 4},  # jittered; throttling included
    max_pool_connections=20,
    parameter_validation=False,  # the service itself does it
)


_making = threading.Lock()


class AwsError(ProxyPoolError):
    """A call of AWS failed; `code` is the service's, "" where no answer came (network, credentials)."""

    def __init__(self, text: str, *, code: str = "") -> None:
        super().__init__(text)
        self.code = code


@cache
def client(service: str) -> Any:
    """The boto3 client of a service, e.g. "sqs". Threads may share one, but not make two at once."""
    with _making:
        return boto3.client(service, config=_CONFIG)


@contextmanager
def translated() -> Iterator[None]:
    """Raises AwsError for what botocore raises in the block."""
    try:
        yield
    except ClientError as error:
        raise AwsError(str(error), code=error.response.get("Error", {}).get("Code", "")) from error
    except BotoCoreError as error:
        raise AwsError(str(error)) from error
