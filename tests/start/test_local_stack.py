"""`proxypool up`, `status` and `down` as a reader runs them, with the reader's own list, on a machine that is not kind.

One stack serves the file: its first start was killed half-way, a company proxy is set, and the emulator's port is taken.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from proxypool.local import live_view, seed, state_folder
from proxypool.local.process import LocalStackError, is_alive
from proxypool.local.stack import Plan, Running, running
from proxypool.local.user_sources import OwnJudge

from tests.support.stack import ROOT, wait_until

pytestmark = [pytest.mark.xdist_group("up"), pytest.mark.timeout(240)]

COMPANY = {"HTTP_PROXY": "http://127.0.0.1:9", "http_proxy": "http://127.0.0.1:9", "ALL_PROXY": "http://127.0.0.1:9"}


class CommandLine:
    """The commands in one state folder, run in the project's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {**os.environ, **COMPANY}

    def start(self, *words: str, output: Any = subprocess.DEVNULL) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "proxypool.local.commands", *words, "--state", str(self.folder)]
        return subprocess.Popen(
            command, cwd=ROOT, env=self.environment, stdout=output, stderr=subprocess.PIPE, text=True
        )

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        with self.start(*words, output=subprocess.PIPE) as process:
            out, err = process.communicate(timeout=200)
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    def shell(self, line: str) -> str:
        """What a line prints that was copied from the screen."""
        environment = {**self.environment, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        return subprocess.run(["bash", "-c", line], cwd=ROOT, env=environment, capture_output=True, text=True).stdout

    def up(self, *words: str) -> dict[str, Any]:
        """Starts in the background; where it is, with its log under `log`."""
        done = self.run("up", "--detach", "--json", *words)
        assert done.returncode == 0, done.stderr
        return {**json.loads(done.stdout), "log": (self.folder / "up.log").read_text()}


def where(told: dict[str, Any]) -> dict[str, Any]:
    """What `up` told, without what is no part of stack.json."""
    return {name: value for name, value in told.items() if name not in ("log", "first_lease_seconds")}


@contextmanager
def own_proxies(folder: Path) -> Iterator[list[str]]:
    """Proxies on loopback that are no part of the stack: the lines of their list."""
    folder.mkdir()
    command = [
        sys.executable,
        "-m",
        "proxypool.local.farm.server",
        "--state-dir",
        str(folder),
        "-n",
        "4",
        "--mix",
        "fast=1",
    ]
    farm = subprocess.Popen([*command, "--one-address"] if sys.platform == "darwin" else command)
    try:
        wait_until(lambda: (folder / "farm.json").exists())
        yield (folder / "farm-list.txt").read_text().split()
    finally:
        farm.terminate()
        farm.wait(20)


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """The reader's own proxies."""
    with own_proxies(tmp_path_factory.mktemp("own") / "farm") as lines:
        yield lines


@pytest.fixture(scope="module")
def sources(own: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The reader's sources.toml, which names a file of lines beside it."""
    folder = tmp_path_factory.mktemp("sources")
    (folder / "mine.txt").write_text("\n".join(own))
    (folder / "sources.toml").write_text('[[source]]\nname = "mine"\npath = "mine.txt"\ntags = ["mine"]\n')
    return folder / "sources.toml"


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    """The command line; whatever it started is stopped at the end."""
    line = CommandLine(tmp_path_factory.mktemp("up") / "state")
    yield line
    line.run("down")


@pytest.fixture(scope="module")
def stack(command: CommandLine, sources: Path) -> Iterator[dict[str, Any]]:
    """A stack that was started after a start that was killed."""
    with command.start("up", "--sources", str(sources)) as killed:
        wait_until(lambda: (command.folder / "aws").exists() or (command.folder / state_folder.CHILDREN_FILE).exists())
        killed.kill()
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind(("127.0.0.1", 4566))
            taken.listen()
        except OSError:
            pass  # another stack has it: as good
        yield command.up("--sources", str(sources))


def test_what_a_start_that_was_killed_left_running_is_stopped_first(stack: dict[str, Any]) -> None:
    assert "left behind by a run that was killed" in stack["log"]


def test_a_taken_port_is_avoided_and_the_new_one_told(stack: dict[str, Any]) -> None:
    port = stack["endpoint_url"].rpartition(":")[2]

    assert f"port 4566 is taken: aws listens on {port}" in stack["log"]


def test_the_leased_proxy_is_one_of_the_readers_own(stack: dict[str, Any], own: list[str]) -> None:
    """A company's HTTP_PROXY is set and leads nowhere: loopback is reached all the same."""
    wait_until(lambda: live_view.can_lease(Running(**where(stack))))

    lease = seed.call(stack["api_url"], "POST", "/leases", {"ttl_seconds": 5})

    assert lease["proxy_url"] in own


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed; .ci/run installs it")
def test_the_lines_to_copy_lease_and_show_the_exit(stack: dict[str, Any], command: CommandLine) -> None:
    lines = [line.strip() for line in stack["log"].splitlines() if line.strip().startswith("curl")]

    through, plain = (json.loads(command.shell(line)) for line in lines)

    assert through["origin"].startswith("127.")
    assert plain["ttl_seconds"] == 60


def test_the_line_for_aws_tools_leads_to_the_stack(stack: dict[str, Any], command: CommandLine) -> None:
    (exported,) = (line.strip() for line in stack["log"].splitlines() if line.strip().startswith("export"))
    script = "import boto3; print(*boto3.client('dynamodb').list_tables()['TableNames'])"

    assert stack["outputs"]["ProxiesTable"] in command.shell(f'{exported}; python -c "{script}"').split()
    assert command.shell(f'AWS_ENDPOINT_URL={stack["endpoint_url"]} python -c "{script}"') == ""  # without the key


def test_a_state_folder_that_others_can_write_to_is_refused_in_one_line(tmp_path: Path) -> None:
    """Else another user could say which processes `down` ends."""
    line = CommandLine(tmp_path / "state")
    line.folder.mkdir()
    line.folder.chmod(0o777)

    done = [line.run(verb) for verb in ("up", "down", "status")]

    assert [found.returncode for found in done] == [1, 1, 1]
    assert {found.stderr for found in done} == {
        f"proxypool: {line.folder} can be written by other users: name another folder with --state\n"
    }


def test_a_second_up_is_refused_in_one_line_that_names_the_first(stack: dict[str, Any], command: CommandLine) -> None:
    done = command.run("up")

    assert done.returncode == 1
    assert done.stderr.strip().splitlines()[-1:] == [
        f"proxypool: a stack already runs here (process {stack['pid']}): `proxypool down` stops it"
    ]


def test_status_tells_where_the_stack_is_and_how_its_pool_is(stack: dict[str, Any], command: CommandLine) -> None:
    def told() -> dict[str, Any]:
        status: dict[str, Any] = json.loads(command.run("status", "--json").stdout)
        return status

    wait_until(lambda: told()["pool"]["proxies"]["active"] == 4)

    assert told()["running"]
    assert told()["api_url"] == stack["api_url"]


def test_a_source_that_is_not_right_is_named_with_its_field(stack: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(LocalStackError, match=r"^source mine: .*parser: must be one of"):
        seed.seed(stack["api_url"], [{"name": "mine", "inline": "127.0.0.2:80", "parser": "nope"}], tmp_path)


def test_a_changed_source_is_changed_and_one_no_longer_named_is_removed(stack: dict[str, Any], tmp_path: Path) -> None:
    a, b = ({"name": name, "inline": "127.0.0.2:80", "enabled": False} for name in ("a", "b"))
    seed.seed(stack["api_url"], [a, b], tmp_path)

    told = seed.seed(stack["api_url"], [{**a, "kind": "mobile"}], tmp_path)

    found = {source["name"]: source for source in seed.call(stack["api_url"], "GET", "/sources")["sources"]}
    assert found["a"]["kind"] == "mobile"
    assert "b" not in found
    assert told == ["source a: changed", "source b: no longer named, removed; its proxies stay while they work"]


def test_a_killed_stack_starts_again_from_its_state_with_the_same_sources(
    stack: dict[str, Any], command: CommandLine, sources: Path, own: list[str]
) -> None:
    before = seed.call(stack["api_url"], "GET", "/sources")["sources"]
    os.kill(stack["pid"], signal.SIGKILL)
    wait_until(lambda: not is_alive(stack["pid"]))

    again = command.up("--sources", str(sources))

    after = seed.call(again["api_url"], "GET", "/sources")["sources"]
    assert [source["id"] for source in after if source["name"] == "mine"] == [
        source["id"] for source in before if source["name"] == "mine"
    ]
    assert wait_until(lambda: live_view.can_lease(Running(**where(again))))
    assert seed.call(again["api_url"], "POST", "/leases", {})["proxy_url"] in own


def test_what_an_unreachable_judge_left_unchecked_is_leased_by_the_next_start(own: list[str], tmp_path: Path) -> None:
    """The first start asks a judge that nobody can reach; the second its own, on the state of the first and on other ports.

    Queues, stream and sweep all have to work again: nothing is leased from what the first start knew.
    """
    source = {"name": "mine", "inline": "\n".join(own)}
    first = Plan(root=ROOT, folder=tmp_path, farm_size=0, own_ports=True, judge=OwnJudge(url="http://127.0.0.1:9/get"))
    with running(first) as stack:
        seed.seed(stack.api_url, [source], first.data)
        wait_until(lambda: seed.call(stack.api_url, "GET", "/stats/pool")["last_validation_at"])

    with running(replace(first, judge=None)) as stack:
        seed.seed(stack.api_url, [source], first.data)

        assert wait_until(lambda: live_view.can_lease(stack))


def test_down_ends_every_process_and_keeps_the_state(command: CommandLine) -> None:
    """Runs last: whatever of the tests before ran, nothing runs afterwards."""
    running = json.loads(command.run("status", "--json").stdout)

    assert command.run("down").stdout == "stopped\n"

    wait_until(lambda: not any(map(is_alive, [running["pid"], *running["children"].values()])))
    assert command.run("down").stdout == "nothing runs here\n"
    assert command.run("status").returncode == 6
    assert (command.folder / "own" / "aws" / "state").exists()


def test_too_few_open_files_are_said_in_one_line(tmp_path: Path) -> None:
    line = f"ulimit -n 64; exec {sys.executable} -m proxypool.local.commands up --state {tmp_path}"

    done = subprocess.run(["bash", "-c", line], cwd=ROOT, capture_output=True, text=True)

    assert done.returncode == 1
    assert done.stderr.startswith("proxypool: only 64 open files are allowed here, 1024 are needed")
    assert done.stderr.count("\n") == 1
