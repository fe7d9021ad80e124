"""The emulated AWS: one child process on loopback, whose state is saved when it ends."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

from localstack_client.session import Session

from proxypool.local.emulation.access import credentials
from proxypool.local.process import LOOPBACK, LocalStackError, start

START_SECONDS = 30


def server_environment(port: int, access_key: str) -> dict[str, str]:
    """The variables of the emulator's own process: it listens on loopback and takes requests with this access key."""
    return {
        **credentials(access_key),
        "AWS_ENDPOINT_URL": endpoint(port),
        "GATEWAY_PORT": str(port),
        "BIND_HOST": LOOPBACK,
        "IOT_MTLS_ENABLED": "0",
        "LOG_LEVEL": "WARNING",
    }


def start_emulator(folder: Path, port: int, access_key: str) -> subprocess.Popen[bytes]:
    """Starts the emulator; state, files of S3 and unpacked functions lie in `folder`."""
    unpacked = folder / "tmp"
    shutil.rmtree(unpacked, ignore_errors=True)  # what a killed run left behind
    for path in (unpacked, folder / "state", folder / "s3"):
        path.mkdir(parents=True, exist_ok=True)
    environment = {
        **server_environment(port, access_key),
        "PERSIST_STATE": "1",
        "STATE_DIR": str(folder / "state"),
        "S3_PERSIST": "1",
        "S3_DATA_DIR": str(folder / "s3"),
        "TMPDIR": str(unpacked),
    }
    return start(
        [sys.executable, "-m", "proxypool.local.emulation.patched_emulator"],
        log=folder / "emulator.log",
        environment=environment,
    )


def wait_for_emulator(child: subprocess.Popen[bytes], port: int) -> None:
    """Returns when the emulator is healthy; raises LocalStackError when it ends or takes too long."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    end = time.monotonic() + START_SECONDS
    while child.poll() is None and time.monotonic() < end:
        try:
            with opener.open(f"{endpoint(port)}/_ministack/health", timeout=1):
                return
        except OSError:
            time.sleep(0.05)
    raise LocalStackError("the emulated AWS did not start; see emulator.log in the state folder")


def endpoint(port: int) -> str:
    """Where the emulator listens."""
    return f"http://{LOOPBACK}:{port}"


class Clients:
    """boto3 clients of one emulator, made when first asked for: `clients("sqs")`."""

    def __init__(self, endpoint_url: str, access_key: str) -> None:
        os.environ["AWS_ENDPOINT_URL"] = endpoint_url  # it would win over the session's own host
        keys = credentials(access_key)
        self._session = Session(
            aws_access_key_id=keys["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=keys["AWS_SECRET_ACCESS_KEY"],
            region_name=keys["AWS_DEFAULT_REGION"],
        )
        self._made: dict[str, Any] = {}

    def __call__(self, service: str) -> Any:
        """The client of a service."""
        if service not in self._made:
            self._made[service] = self._session.client(service)
        return self._made[service]
