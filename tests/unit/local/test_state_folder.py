"""The lock of a state folder, and the cleanup after a killed run, with real processes and locks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from proxypool.local import state_folder
from proxypool.local.process import LocalStackError, is_alive

LOCK = "import sys, time; from pathlib import Path; from proxypool.local import state_folder\nwith state_folder.locked(Path(sys.argv[1])): print('locked', flush=True); time.sleep(60)"
SLEEP = "import time; print('up', flush=True); time.sleep(60)  # proxypool.local"


@contextmanager
def a_process(code: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None
        child.stdout.readline()
        yield child
    finally:
        child.kill()
        child.communicate()


def test_a_second_process_is_rejected_and_the_first_is_named(tmp_path: Path) -> None:
    with a_process(LOCK, str(tmp_path)) as child:
        with pytest.raises(LocalStackError, match=f"process {child.pid}"), state_folder.locked(tmp_path):
            pass

        assert state_folder.lock_owner(tmp_path) == child.pid


def test_a_killed_process_has_no_lock(tmp_path: Path) -> None:
    with a_process(LOCK, str(tmp_path)) as child:
        child.kill()
        child.wait()

        assert state_folder.lock_owner(tmp_path) is None
        with state_folder.locked(tmp_path):
            pass


def test_an_unused_folder_is_not_locked(tmp_path: Path) -> None:
    assert state_folder.lock_owner(tmp_path / "none") is None


def test_children_of_a_killed_run_are_stopped(tmp_path: Path) -> None:
    lines: list[str] = []
    (tmp_path / "demo" / "valkey").mkdir(parents=True)
    with a_process(SLEEP) as valkey, a_process(SLEEP) as aws:
        state_folder.write_children(tmp_path, tmp_path / "demo", {"valkey": valkey.pid, "aws": aws.pid})

        assert state_folder.clean_up(tmp_path, lines.append)

        assert not is_alive(valkey.pid)
        assert not is_alive(aws.pid)
    assert [line.split(" (")[0] for line in lines] == ["stopped valkey", "stopped aws"]
    assert (tmp_path / "demo" / "valkey").exists()  # both were terminated properly: their data is consistent


def test_the_cache_is_deleted_if_the_servers_were_killed_too(tmp_path: Path) -> None:
    lines: list[str] = []
    (tmp_path / "demo" / "valkey").mkdir(parents=True)
    with a_process(SLEEP) as gone:
        pass
    state_folder.write_children(tmp_path, tmp_path / "demo", {"valkey": gone.pid, "aws": gone.pid})
    (tmp_path / "stack.json").write_text("{}")

    assert state_folder.clean_up(tmp_path, lines.append)

    assert not (tmp_path / "stack.json").exists()
    assert not (tmp_path / "demo" / "valkey").exists()
    assert lines == ["the previous run was killed: its changes since its start are lost"]
    assert not state_folder.clean_up(tmp_path, lines.append)


def test_a_reused_process_id_is_not_stopped(tmp_path: Path) -> None:
    with a_process("import time; print('up', flush=True); time.sleep(60)") as stranger:
        state_folder.write_children(tmp_path, tmp_path / "demo", {"valkey": stranger.pid})

        state_folder.clean_up(tmp_path, lambda _: None)

        assert is_alive(stranger.pid)


def test_after_a_proper_end_there_is_nothing_to_clean_up(tmp_path: Path) -> None:
    state_folder.write_children(tmp_path, tmp_path / "demo", {"valkey": os.getpid()})
    state_folder.write_children(tmp_path, tmp_path / "demo", {})

    assert not state_folder.clean_up(tmp_path, lambda _: None)


def test_a_truncated_record_is_ignored(tmp_path: Path) -> None:
    (tmp_path / state_folder.CHILDREN_FILE).write_text(json.dumps({"data": "x"})[:5])

    assert not state_folder.clean_up(tmp_path, lambda _: None)


def test_a_zombie_is_not_alive() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    try:
        end = time.monotonic() + 90
        while is_alive(child.pid) and time.monotonic() < end:
            time.sleep(0.02)
        assert not is_alive(child.pid)
    finally:
        child.wait()
