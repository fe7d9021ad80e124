"""The folder that keeps a stack's state between runs: its lock, its child processes, and the cleanup after a killed run.

A file lock shows whether a stack is starting, running or stopping: the operating system releases it when the process ends.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from proxypool_client.local_stack import STACK_FILE, why_not_trusted

from proxypool.local import process
from proxypool.local.process import LocalStackError

LOCK_FILE = "lock"
CHILDREN_FILE = "children.json"
LOCK_SECONDS = 0.5  # `status` takes a shared lock for less than this
PRIVATE_UMASK = 0o077
COMMANDS = ("valkey-server", "proxypool.local")  # one of them is in the command line of each child process


def create(folder: Path) -> None:
    """Creates the folder where it is missing; raises LocalStackError where other users could change its files."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_trusted(folder)


def check_trusted(folder: Path) -> None:
    """Raises LocalStackError where the folder exists and belongs to another user, or others may write into it."""
    if folder.exists() and (reason := why_not_trusted(folder.stat())):
        raise LocalStackError(f"{folder} {reason}: choose another folder with --state")


@contextmanager
def private_files() -> Iterator[None]:
    """In the block, files that this process and its new children create are readable by this user only."""
    before = os.umask(PRIVATE_UMASK)
    try:
        yield
    finally:
        os.umask(before)


def write_private(file: Path, text: str) -> None:
    """Writes a file that only this user can read (mode 0600), atomically."""
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w", encoding="utf-8") as opened:
        opened.write(text)
    draft.replace(file)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Locks the folder for this process in the block; raises LocalStackError if another process has locked it."""
    create(folder)
    with (folder / LOCK_FILE).open("a+") as file:
        end = time.monotonic() + LOCK_SECONDS
        while not _try_lock(file.fileno(), fcntl.LOCK_EX):
            if time.monotonic() > end:
                raise_if_locked(folder)
            time.sleep(0.05)
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def lock_owner(folder: Path) -> int | None:
    """The id of the process whose stack is starting, running or stopping in this folder, or None."""
    try:
        with (folder / LOCK_FILE).open() as file:
            return None if _try_lock(file.fileno(), fcntl.LOCK_SH) else int(file.read() or 0)
    except (FileNotFoundError, ValueError):
        return None


def raise_if_locked(folder: Path) -> None:
    """Raises LocalStackError if a stack of this folder is starting, running or stopping."""
    pid = lock_owner(folder)
    if pid is not None:
        raise LocalStackError(
            f"a stack is already running in this folder (process {pid}); stop it with `proxypool down`"
        )


def write_children(folder: Path, data: Path, children: Mapping[str, int]) -> None:
    """Records the process ids of the running children and their data folder; without children the record is removed."""
    file = folder / CHILDREN_FILE
    if children:
        file.write_text(json.dumps({"data": str(data), "children": dict(children)}))
    else:
        file.unlink(missing_ok=True)


def clean_up(folder: Path, log: Callable[[str], None]) -> bool:
    """Stops the processes that a killed run left; returns whether there was such a run.

    If its servers were killed too, cache and tables may be inconsistent: the cache is deleted, and is rebuilt from the tables.
    """
    try:
        record = json.loads((folder / CHILDREN_FILE).read_text())
    except (FileNotFoundError, ValueError):  # ValueError: killed during the first write
        return False
    alive = {name: pid for name, pid in record["children"].items() if is_stack_process(pid)}
    for name, pid in alive.items():
        process.stop_pid(pid)
        log(f"stopped {name} (process {pid}) of a previous run that was killed")
    if not {"valkey", "aws"} <= alive.keys():
        shutil.rmtree(Path(record["data"]) / "valkey", ignore_errors=True)
        log("the previous run was killed: its changes since its start are lost")
    (folder / STACK_FILE.name).unlink(missing_ok=True)
    (folder / CHILDREN_FILE).unlink()
    return True


def is_stack_process(pid: int) -> bool:
    """Whether this process is a child of a local stack: the operating system may have reused the id for another program."""
    return process.is_alive(pid) and any(name in _command(pid) for name in COMMANDS)


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").replace("\0", " ")
    except OSError:  # no /proc (macOS), or the process has ended
        listing = subprocess.run(["ps", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False)
        return listing.stdout


def _try_lock(file: int, mode: int) -> bool:
    try:
        fcntl.flock(file, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
