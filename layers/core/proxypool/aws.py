"""The clients of AWS: one per service and process, made at the first call. `AWS_ENDPOINT_URL` leads them to the emulator."""

from __future__ import annotations

import threading
from functools import cache
from typing import Any

import boto3
from botocore.config import Config

_CONFIG = Config(
    connect_timeout=2,
    read_timeout=10,
    retries={"mode": "standard", "max_attempts": 4},  # jittered; throttling included
    max_pool_connections=20,
    parameter_validation=False,  # the service itself does it
)


_making = threading.Lock()


@cache
def client(service: str) -> Any:
    """The boto3 client of a service, e.g. "sqs". Threads may share one, but not make two at once."""
    with _making:
        return boto3.client(service, config=_CONFIG)
