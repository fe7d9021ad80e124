"""The folder that keeps a stack between runs: who holds it, which children run on it, and what a killed run left behind.

A lock of the system says whether a stack starts, runs or ends here: it goes with its process, however that dies.
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
LOCK_SECONDS = 0.5  # a glance at the lock (`status`) is over sooner
PRIVATE_UMASK = 0o077
OURS = ("valkey-server", "proxypool.local")


def create(folder: Path) -> None:
    """Creates the folder where it is missing; raises LocalStackError where other users could change what lies in it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    refuse_foreign(folder)


def refuse_foreign(folder: Path) -> None:
    """Raises LocalStackError where the folder exists and belongs to another user, or others may write into it."""
    if folder.exists() and (reason := why_not_trusted(folder.stat())):
        raise LocalStackError(f"{folder} {reason}: name another folder with --state")


@contextmanager
def private_files() -> Iterator[None]:
    """Within the block, what this process and its new children create is readable by this user only."""
    before = os.umask(PRIVATE_UMASK)
    try:
        yield
    finally:
        os.umask(before)


def write_private(file: Path, text: str) -> None:
    """Writes a file that only this user reads (0600), as a whole or not at all."""
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w", encoding="utf-8") as opened:
        opened.write(text)
    draft.replace(file)


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Holds the folder for this process while the block runs; raises LocalStackError naming the process that does already."""
    create(folder)
    with (folder / LOCK_FILE).open("a+") as file:
        end = time.monotonic() + LOCK_SECONDS
        while not _locked(file.fileno(), fcntl.LOCK_EX):
            if time.monotonic() > end:
                refuse_second(folder)
            time.sleep(0.05)
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def holder(folder: Path) -> int | None:
    """The process whose stack starts, runs or ends here; None where there is none."""
    try:
        with (folder / LOCK_FILE).open() as file:
            return None if _locked(file.fileno(), fcntl.LOCK_SH) else int(file.read() or 0)
    except (FileNotFoundError, ValueError):
        return None


def refuse_second(folder: Path) -> None:
    """Raises LocalStackError when a stack already runs on this folder, or starts."""
    found = holder(folder)
    if found is not None:
        raise LocalStackError(f"a stack already runs here (process {found}): `proxypool down` stops it")


def remember(folder: Path, data: Path, children: Mapping[str, int]) -> None:
    """Writes down the process ids of the children that run now, on what data; none: the stack has ended in order."""
    file = folder / CHILDREN_FILE
    if children:
        file.write_text(json.dumps({"data": str(data), "children": dict(children)}))
    else:
        file.unlink(missing_ok=True)


def clean_up(folder: Path, tell: Callable[[str], None]) -> bool:
    """Stops what a killed run left running; returns whether there was anything to mend.

    Where its servers died with it, what they stored may disagree: the cache is emptied, and filled again from the tables.
    """
    try:
        left = json.loads((folder / CHILDREN_FILE).read_text())
    except (FileNotFoundError, ValueError):  # ValueError: killed while writing the first
        return False
    alive = {name: pid for name, pid in left["children"].items() if is_ours(pid)}
    for name, pid in alive.items():
        process.stop_pid(pid)
        tell(f"stopped {name} (process {pid}), left behind by a run that was killed")
    if not {"valkey", "aws"} <= alive.keys():
        shutil.rmtree(Path(left["data"]) / "valkey", ignore_errors=True)
        tell("the last run was killed: what it had learnt since its start is lost")
    (folder / STACK_FILE.name).unlink(missing_ok=True)
    (folder / CHILDREN_FILE).unlink()
    return True


def is_ours(pid: int) -> bool:
    """Whether this process is a child of some stack: a number alone may be somebody else's by now."""
    return process.is_alive(pid) and any(word in _command(pid) for word in OURS)


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").replace("\0", " ")
    except OSError:  # no /proc (macOS), or it ended just now
        shown = subprocess.run(["ps", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False)
        return shown.stdout


def _locked(file: int, how: int) -> bool:
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
