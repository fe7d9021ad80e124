"""The boto3 clients: one per service and process, created at the first call. `AWS_ENDPOINT_URL` points them to an emulator."""

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
    parameter_validation=False,  # left to the service: faster
)

_client_lock = threading.Lock()


class AwsError(ProxyPoolError):
    """A call to AWS failed; `code` is the error code of the service, "" if there was no response (network, credentials)."""

    def __init__(self, text: str, *, code: str = "") -> None:
        super().__init__(text)
        self.code = code


@cache
def client(service: str) -> Any:
    """The boto3 client of a service, e.g. "sqs". Clients are thread-safe, their creation is not."""
    with _client_lock:
        return boto3.client(service, config=_CONFIG)


@contextmanager
def translate_errors() -> Iterator[None]:
    """Context manager that translates errors of botocore to AwsError."""
    try:
        yield
    except ClientError as error:
        raise AwsError(str(error), code=error.response.get("Error", {}).get("Code", "")) from error
    except BotoCoreError as error:
        raise AwsError(str(error)) from error
