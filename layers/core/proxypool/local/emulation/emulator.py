"""The emulated AWS: a child process on loopback that saves its state when it ends."""

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
    """Environment variables of the emulator's process: it listens on loopback and accepts requests with this access key."""
    return {
        **credentials(access_key),
        "AWS_ENDPOINT_URL": endpoint(port),
        "GATEWAY_PORT": str(port),
        "BIND_HOST": LOOPBACK,
        "IOT_MTLS_ENABLED": "0",
        "LOG_LEVEL": "WARNING",
    }


def start_emulator(folder: Path, port: int, access_key: str) -> subprocess.Popen[bytes]:
    """Starts the emulator; `folder` has its state, the objects of S3 and the unpacked functions."""
    unpacked = folder / "tmp"
    shutil.rmtree(unpacked, ignore_errors=True)  # of a killed run
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
    """Waits until the emulator is healthy; raises LocalStackError if it ends, or after 30 s."""
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
    """The emulator's URL."""
    return f"http://{LOOPBACK}:{port}"


class Clients:
    """boto3 clients of an emulator, created on first use: `clients("sqs")`."""

    def __init__(self, endpoint_url: str, access_key: str) -> None:
        os.environ["AWS_ENDPOINT_URL"] = endpoint_url  # it takes precedence over the session's host
        keys = credentials(access_key)
        self._session = Session(
            aws_access_key_id=keys["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=keys["AWS_SECRET_ACCESS_KEY"],
            region_name=keys["AWS_DEFAULT_REGION"],
        )
        self._clients: dict[str, Any] = {}

    def __call__(self, service: str) -> Any:
        """The client of a service."""
        if service not in self._clients:
            self._clients[service] = self._session.client(service)
        return self._clients[service]
