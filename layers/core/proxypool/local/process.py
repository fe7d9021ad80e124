"""Children of the local stack: started on free loopback ports, and stopped by their process id on every way out."""

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
_NOT_INHERITED = ("PYTHONDONTWRITEBYTECODE",)  # it makes the emulator's start three times as slow


class LocalStackError(ProxyPoolError):
    """The stack on this machine cannot start or go on; the message is one line for the reader."""


def free_port(preferred: int = 0) -> int:
    """The preferred port of loopback where it is free, else any free one."""
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
    """Starts a child in a session of its own (a Ctrl-C is for us, who stop it in order); its output goes to `log`."""
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
    """Asks a child to end, waits while it saves its state, and insists after 15 s."""
    if child.poll() is not None:
        return
    child.terminate()
    try:
        child.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def stop_pid(pid: int, *, seconds: float = STOP_SECONDS) -> None:
    """Asks a process that is no child of ours to end, waits, and insists after `seconds`."""
    for number, patience in ((signal.SIGTERM, seconds), (signal.SIGKILL, 2.0)):
        with suppress(ProcessLookupError):
            os.kill(pid, number)
        end = time.monotonic() + patience
        while is_alive(pid) and time.monotonic() < end:
            time.sleep(0.05)
        if not is_alive(pid):
            return


def is_alive(pid: int) -> bool:
    """Whether a process of this user runs under this id; one that has ended and waits for its parent does not."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:  # no /proc: not Linux
        return True


def no_proxy() -> dict[str, str]:
    """Variables by which a company's HTTP_PROXY does not catch loopback."""
    names = [name for name in os.environ.get("NO_PROXY", os.environ.get("no_proxy", "")).split(",") if name]
    value = ",".join(dict.fromkeys([*names, LOOPBACK, "localhost"]))
    return {"NO_PROXY": value, "no_proxy": value}
