"""`proxypool up`, `status` and `down` as a user runs them, with the user's own list and common obstacles.

One stack for the whole file: its first start was killed, a company proxy is configured, and the emulator's port is in use.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from proxypool.local import live_view, stack_sources, state_folder
from proxypool.local.process import is_alive
from proxypool.local.stack import Plan, run_stack
from proxypool.local.user_sources import JudgeConfig
from proxypool_client.api import Api
from proxypool_client.errors import ApiError
from proxypool_client.local_stack import LocalUrl
from proxypool_client.source_files import Entry

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
        """The output of a command that was copied from the screen."""
        environment = {**self.environment, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        return subprocess.run(["bash", "-c", line], cwd=ROOT, env=environment, capture_output=True, text=True).stdout

    def up(self, *words: str) -> dict[str, Any]:
        """Starts the stack in the background; its JSON, with the text of its log as `log`."""
        done = self.run("up", "--detach", "--json", *words)
        assert done.returncode == 0, done.stderr
        return {**json.loads(done.stdout), "log": (self.folder / "up.log").read_text()}


def api_of(started: dict[str, Any]) -> closing[Api]:
    """A client of a started stack's API, closed at the end of the block."""
    return closing(Api(LocalUrl(started["api_url"])))


@contextmanager
def own_proxies(folder: Path) -> Iterator[list[str]]:
    """Proxies on loopback that are not part of the stack; yields the lines of their list."""
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
    """The user's own proxies."""
    with own_proxies(tmp_path_factory.mktemp("own") / "farm") as lines:
        yield lines


@pytest.fixture(scope="module")
def sources(own: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The user's sources.toml, with a list in a file in the same folder."""
    folder = tmp_path_factory.mktemp("sources")
    (folder / "mine.txt").write_text("\n".join(own))
    (folder / "sources.toml").write_text('[[source]]\nname = "mine"\npath = "mine.txt"\ntags = ["mine"]\n')
    return folder / "sources.toml"


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    """The command line; the stack that it started is stopped at the end."""
    line = CommandLine(tmp_path_factory.mktemp("up") / "state")
    yield line
    line.run("down")


@pytest.fixture(scope="module")
def stack(command: CommandLine, sources: Path) -> Iterator[dict[str, Any]]:
    """A stack that was started after a killed start."""
    with command.start("up", "--sources", str(sources)) as killed:
        wait_until(lambda: (command.folder / "aws").exists() or (command.folder / state_folder.CHILDREN_FILE).exists())
        killed.kill()
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", 4566))
            listener.listen()
        except OSError:
            pass  # in use by another stack
        yield command.up("--sources", str(sources))


def test_processes_of_a_killed_start_are_stopped_first(stack: dict[str, Any]) -> None:
    assert "of a previous run that was killed" in stack["log"]


def test_another_port_is_used_and_logged_if_one_is_in_use(stack: dict[str, Any]) -> None:
    port = stack["endpoint_url"].rpartition(":")[2]

    assert f"port 4566 is in use: aws listens on {port}" in stack["log"]


def test_the_leased_proxy_is_one_of_the_users_own(stack: dict[str, Any], own: list[str]) -> None:
    """An unreachable HTTP_PROXY is configured; it is not used for loopback."""
    with api_of(stack) as api:
        wait_until(lambda: live_view.can_lease(api))

        lease = api.request("POST", "/leases", {"ttl_seconds": 5})

    assert lease["proxy_url"] in own


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed; .ci/run installs it")
def test_the_printed_curl_commands_lease_and_show_the_exit(stack: dict[str, Any], command: CommandLine) -> None:
    lines = [line.strip() for line in stack["log"].splitlines() if line.strip().startswith("curl")]

    through, plain = (json.loads(command.shell(line)) for line in lines)

    assert through["origin"].startswith("127.")
    assert plain["ttl_seconds"] == 60


def test_the_printed_variables_connect_aws_tools_to_the_stack(stack: dict[str, Any], command: CommandLine) -> None:
    (exported,) = (line.strip() for line in stack["log"].splitlines() if line.strip().startswith("export"))
    script = "import boto3; print(*boto3.client('dynamodb').list_tables()['TableNames'])"

    assert stack["outputs"]["ProxiesTable"] in command.shell(f'{exported}; python -c "{script}"').split()
    assert command.shell(f'AWS_ENDPOINT_URL={stack["endpoint_url"]} python -c "{script}"') == ""  # without the key


def test_a_state_folder_that_others_can_write_to_is_an_error_of_one_line(tmp_path: Path) -> None:
    """Otherwise another user could determine which processes `down` stops."""
    line = CommandLine(tmp_path / "state")
    line.folder.mkdir()
    line.folder.chmod(0o777)

    done = [line.run(verb) for verb in ("up", "down", "status")]

    assert [process.returncode for process in done] == [1, 1, 1]
    assert {process.stderr for process in done} == {
        f"proxypool: {line.folder} can be written by other users: choose another folder with --state\n"
    }


def test_a_second_up_is_an_error_of_one_line_with_the_process_of_the_first(
    stack: dict[str, Any], command: CommandLine
) -> None:
    done = command.run("up")

    assert done.returncode == 1
    assert (done.stdout, done.stderr) == (
        "",
        f"proxypool: a stack is already running in this folder (process {stack['pid']}); stop it with `proxypool down`\n",
    )


def test_status_shows_the_addresses_and_the_pool(stack: dict[str, Any], command: CommandLine) -> None:
    def status() -> dict[str, Any]:
        found: dict[str, Any] = json.loads(command.run("status", "--json").stdout)
        return found

    wait_until(lambda: status()["pool"]["proxies"]["active"] == 4)

    assert status()["running"]
    assert status()["api_url"] == stack["api_url"]


def test_an_invalid_source_is_named_with_its_field(stack: dict[str, Any], tmp_path: Path) -> None:
    entry = Entry({"id": "m", "name": "mine", "inline": "127.0.0.2:80", "parser": "nope"})

    with api_of(stack) as api, pytest.raises(ApiError, match=r"^source mine: ") as raised:
        list(stack_sources.sync(api, [entry], tmp_path))

    (error,) = raised.value.problem["errors"]
    assert (error["field"], error["message"][:14]) == ("parser", "must be one of")


def test_a_changed_source_is_updated_and_one_that_is_no_longer_listed_is_removed(
    stack: dict[str, Any], tmp_path: Path
) -> None:
    a, b = ({"id": name, "name": name, "inline": "127.0.0.2:80", "enabled": False} for name in ("a", "b"))
    with api_of(stack) as api:
        first = list(stack_sources.sync(api, [Entry(a), Entry(b)], tmp_path))
        unchanged = list(stack_sources.sync(api, [Entry(a), Entry(b)], tmp_path))

        lines = list(stack_sources.sync(api, [Entry({**a, "kind": "mobile"})], tmp_path))

        sources = {source["name"]: source for source in api.request("GET", "/sources")["sources"]}
    assert sources["a"]["kind"] == "mobile"
    assert "b" not in sources
    assert (first, unchanged) == ([], [])
    assert lines == ["source a: updated", "source b: no longer listed, removed; its proxies stay while they work"]


def test_a_killed_stack_starts_again_with_its_state_and_the_same_sources(
    stack: dict[str, Any], command: CommandLine, sources: Path, own: list[str]
) -> None:
    before = source_ids(stack)
    os.kill(stack["pid"], signal.SIGKILL)
    wait_until(lambda: not is_alive(stack["pid"]))

    again = command.up("--sources", str(sources))

    assert source_ids(again) == before
    with api_of(again) as api:
        assert wait_until(lambda: live_view.can_lease(api))
        assert api.request("POST", "/leases", {})["proxy_url"] in own


def source_ids(started: dict[str, Any]) -> list[str]:
    """The ids of the user's sources."""
    with api_of(started) as api:
        return [source["id"] for source in api.request("GET", "/sources")["sources"] if source["name"] == "mine"]


def test_proxies_that_an_unreachable_judge_left_unchecked_are_leased_after_the_next_start(
    own: list[str], tmp_path: Path
) -> None:
    """The judge of the first start is unreachable; the second has its own, with the state of the first and on other ports.

    Queues, stream and sweep must all work again: nothing can be leased from the state of the first start.
    """
    entry = Entry({"id": "mine", "inline": "\n".join(own)})
    judge = JudgeConfig(url="http://127.0.0.1:9/get")
    first = Plan(root=ROOT, folder=tmp_path, farm_size=0, any_ports=True, judge=judge)
    with run_stack(first) as stack, api_of({"api_url": stack.api_url}) as api:
        list(stack_sources.sync(api, [entry], first.data))
        wait_until(lambda: api.request("GET", "/stats/pool")["last_validation_at"])

    with run_stack(replace(first, judge=None)) as stack, api_of({"api_url": stack.api_url}) as api:
        list(stack_sources.sync(api, [entry], first.data))

        assert wait_until(lambda: live_view.can_lease(api))


def test_down_stops_every_process_and_keeps_the_state(command: CommandLine) -> None:
    """Runs last: afterwards no process of the stack runs."""
    running = json.loads(command.run("status", "--json").stdout)

    assert command.run("down").stdout == "stopped\n"

    wait_until(lambda: not any(map(is_alive, [running["pid"], *running["children"].values()])))
    assert command.run("down").stdout == "no stack is running\n"
    assert command.run("status").returncode == 6
    assert (command.folder / "own" / "aws" / "state").exists()


def test_a_low_limit_of_open_files_is_an_error_of_one_line(tmp_path: Path) -> None:
    line = f"ulimit -n 64; exec {sys.executable} -m proxypool.local.commands up --state {tmp_path}"

    done = subprocess.run(["bash", "-c", line], cwd=ROOT, capture_output=True, text=True)

    assert done.returncode == 1
    assert done.stderr.startswith("proxypool: the limit of open files is 64, but 1024 are needed")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("detach", [[], ["--detach"]])
def test_a_missing_sources_file_is_an_error_of_one_line(tmp_path: Path, detach: list[str]) -> None:
    done = CommandLine(tmp_path / "state").run("up", "--sources", str(tmp_path / "none.toml"), *detach)

    assert done.returncode != 0
    assert (done.stdout, done.stderr) == (
        "",
        f"proxypool: {tmp_path}/none.toml cannot be read: No such file or directory\n",
    )


def test_up_ends_after_its_servers_have_saved_their_state_even_if_ctrl_c_is_repeated(tmp_path: Path) -> None:
    line = CommandLine(tmp_path / "state")
    with line.start("up", "-n", "4") as process:
        wait_until(lambda: (line.folder / "stack.json").exists())
        children = json.loads((line.folder / state_folder.CHILDREN_FILE).read_text())["children"]
        while process.poll() is None:
            process.send_signal(signal.SIGINT)
            time.sleep(0.1)
        alive = [name for name, pid in children.items() if is_alive(pid)]
        assert process.stderr
        lines = process.stderr.read().splitlines()

    assert (process.returncode, alive) == (0, [])
    assert lines == [f"Stopped. The state is kept in {line.folder}/ for the next start."]
    assert list((line.folder / "demo" / "aws" / "state").iterdir())
