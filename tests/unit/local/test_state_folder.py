"""Whose a state folder is, and what a killed run left behind in it: real processes, real locks."""

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

HOLD = "import sys, time; from pathlib import Path; from proxypool.local import state_folder\nwith state_folder.held(Path(sys.argv[1])): print('held', flush=True); time.sleep(60)"
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


def test_a_folder_is_held_by_one_process_which_the_second_names(tmp_path: Path) -> None:
    with a_process(HOLD, str(tmp_path)) as child:
        with pytest.raises(LocalStackError, match=f"process {child.pid}"), state_folder.held(tmp_path):
            pass

        assert state_folder.holder(tmp_path) == child.pid


def test_a_killed_process_holds_nothing(tmp_path: Path) -> None:
    with a_process(HOLD, str(tmp_path)) as child:
        child.kill()
        child.wait()

        assert state_folder.holder(tmp_path) is None
        with state_folder.held(tmp_path):
            pass


def test_a_folder_that_was_never_used_is_held_by_nobody(tmp_path: Path) -> None:
    assert state_folder.holder(tmp_path / "none") is None


def test_what_a_killed_run_left_running_is_stopped_by_its_process_id(tmp_path: Path) -> None:
    told: list[str] = []
    (tmp_path / "demo" / "valkey").mkdir(parents=True)
    with a_process(SLEEP) as valkey, a_process(SLEEP) as aws:
        state_folder.remember(tmp_path, tmp_path / "demo", {"valkey": valkey.pid, "aws": aws.pid})

        assert state_folder.clean_up(tmp_path, told.append)

        assert not is_alive(valkey.pid)
        assert not is_alive(aws.pid)
    assert [line.split(" (")[0] for line in told] == ["stopped valkey", "stopped aws"]
    assert (tmp_path / "demo" / "valkey").exists()  # both ended in order: what they stored agrees


def test_a_cache_whose_servers_died_with_the_run_is_emptied(tmp_path: Path) -> None:
    told: list[str] = []
    (tmp_path / "demo" / "valkey").mkdir(parents=True)
    with a_process(SLEEP) as gone:
        pass
    state_folder.remember(tmp_path, tmp_path / "demo", {"valkey": gone.pid, "aws": gone.pid})
    (tmp_path / "stack.json").write_text("{}")

    assert state_folder.clean_up(tmp_path, told.append)

    assert not (tmp_path / "stack.json").exists()
    assert not (tmp_path / "demo" / "valkey").exists()
    assert told == ["the last run was killed: what it had learnt since its start is lost"]
    assert not state_folder.clean_up(tmp_path, told.append)


def test_a_process_id_that_is_somebody_elses_by_now_is_left_alone(tmp_path: Path) -> None:
    with a_process("import time; print('up', flush=True); time.sleep(60)") as stranger:
        state_folder.remember(tmp_path, tmp_path / "demo", {"valkey": stranger.pid})

        state_folder.clean_up(tmp_path, lambda _: None)

        assert is_alive(stranger.pid)


def test_a_run_that_ended_in_order_left_nothing(tmp_path: Path) -> None:
    state_folder.remember(tmp_path, tmp_path / "demo", {"valkey": os.getpid()})
    state_folder.remember(tmp_path, tmp_path / "demo", {})

    assert not state_folder.clean_up(tmp_path, lambda _: None)


def test_a_note_that_was_cut_short_is_as_none(tmp_path: Path) -> None:
    (tmp_path / state_folder.CHILDREN_FILE).write_text(json.dumps({"data": "x"})[:5])

    assert not state_folder.clean_up(tmp_path, lambda _: None)


def test_a_process_that_ended_and_waits_for_its_parent_is_not_alive() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    try:
        end = time.monotonic() + 90
        while is_alive(child.pid) and time.monotonic() < end:
            time.sleep(0.02)
        assert not is_alive(child.pid)
    finally:
        child.wait()
