"""Child processes of the local stack, and free ports on loopback."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from proxypool.errors import ProxyPoolError

LOOPBACK = "127.0.0.1"
STOP_SECONDS = 15
_NOT_INHERITED = ("PYTHONDONTWRITEBYTECODE",)  # with it the emulator takes three times as long to start


class LocalStackError(ProxyPoolError):
    """The local stack cannot start or continue; the message is one line for the user."""


def free_port(preferred: int = 0) -> int:
    """The preferred port on loopback if it is free, else any free port."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((LOOPBACK, preferred))
        except OSError:
            listener.bind((LOOPBACK, 0))
        return int(listener.getsockname()[1])


def start(
    command: Sequence[str], *, log: Path, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Starts a child process in a new session, so that Ctrl-C does not reach it; its output goes to `log`."""
    inherited = {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED}
    with log.open("wb") as output:
        return subprocess.Popen(
            list(command),
            env={**inherited, **no_proxy(), **(environment or {})},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def stop(child: subprocess.Popen[bytes]) -> None:
    """Terminates a child process and waits until it has saved its state; kills it after 15 s."""
    if child.poll() is not None:
        return
    child.terminate()
    try:
        child.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def stop_pid(pid: int, *, seconds: float = STOP_SECONDS) -> None:
    """Terminates a process that is not a child of this one, and waits; kills it after `seconds`."""
    for signal_number, wait_seconds in ((signal.SIGTERM, seconds), (signal.SIGKILL, 2.0)):
        with suppress(ProcessLookupError):
            os.kill(pid, signal_number)
        end = time.monotonic() + wait_seconds
        while is_alive(pid) and time.monotonic() < end:
            time.sleep(0.05)
        if not is_alive(pid):
            return


def is_alive(pid: int) -> bool:
    """Whether a process of this user has this id; False for a zombie."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:  # no /proc: not Linux
        return True


def no_proxy() -> dict[str, str]:
    """Environment variables that exclude loopback from a configured HTTP_PROXY."""
    names = [name for name in os.environ.get("NO_PROXY", os.environ.get("no_proxy", "")).split(",") if name]
    value = ",".join(dict.fromkeys([*names, LOOPBACK, "localhost"]))
    return {"NO_PROXY": value, "no_proxy": value}
