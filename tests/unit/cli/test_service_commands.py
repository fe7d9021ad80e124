"""The service's commands: output and exit codes."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from proxypool.cli.app import app
from proxypool.cli.settings import setting_rows
from proxypool_client.cli.output import Exit
from typer.testing import CliRunner


def test_without_a_stack_the_exit_code_is_6_and_the_option_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PROXYPOOL_STACK", raising=False)

    for words in (["dlq", "list"], ["dlq", "redrive"]):
        found = CliRunner().invoke(app, words)
        assert (found.exit_code, found.stdout) == (Exit.UNREACHABLE, "")
        assert "--stack" in found.stderr


def test_status_and_down_without_a_running_stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    status = CliRunner().invoke(app, ["status", "--json"])
    down = CliRunner().invoke(app, ["down", "--json"])

    assert (status.exit_code, json.loads(status.stdout)["running"]) == (Exit.UNREACHABLE, False)
    assert (down.exit_code, json.loads(down.stdout)["stopped"]) == (0, False)


def test_a_judge_serves_until_it_is_interrupted() -> None:
    """With --json its URL is printed as JSON."""
    code = "from proxypool.cli.app import app; app()"
    words = ["judge", "serve", "--port", "0", "--json"]
    server = subprocess.Popen([sys.executable, "-c", code, *words], stdout=subprocess.PIPE, text=True, env=os.environ)
    try:
        assert server.stdout
        url = json.loads(server.stdout.readline())["judge_url"]
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"{url}?nonce={'0' * 32}", timeout=60) as answer:
            seen = answer.read().decode()
        server.send_signal(signal.SIGINT)
        code_at_end = server.wait(10)
    finally:
        server.kill()
        server.wait()
        assert server.stdout
        server.stdout.close()

    assert "127.0.0.1" in seen
    assert code_at_end == 0


def test_a_port_in_use_and_a_missing_key_file_are_errors_of_one_line(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        refused = CliRunner().invoke(app, ["judge", "serve", "--port", port])
    keyless = CliRunner().invoke(app, ["judge", "serve", "--port", "0", "--key-file", str(tmp_path / "none")])

    assert (refused.exit_code, keyless.exit_code) == (Exit.FAILED, Exit.USAGE)
    assert f"127.0.0.1:{port}" in refused.stderr
    assert len(refused.stderr.splitlines()) == len(keyless.stderr.splitlines()) == 1


def test_settings_are_checked_offline_with_one_line_per_error() -> None:
    good, bad = (CliRunner().invoke(app, ["settings", "check", text]) for text in ("sweep_page=5", "sweep_page=0,x=1"))
    as_json = CliRunner().invoke(app, ["settings", "check", "x=1", "--json"])

    assert (good.exit_code, good.output) == (0, "")
    assert bad.exit_code == as_json.exit_code == Exit.PROBLEMS
    assert bad.stderr.splitlines() == ["sweep_page: 0 is not an integer from 1 to 1,000", "'x' is not a setting"]
    assert json.loads(as_json.stdout) == {"problems": ["'x' is not a setting"]}


def test_settings_without_a_stack_are_an_error_of_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    found = CliRunner().invoke(app, ["settings"])

    assert (found.exit_code, len(found.stderr.splitlines())) == (Exit.UNREACHABLE, 1)


def test_a_password_in_a_parameter_is_not_printed() -> None:
    (found,) = (
        row for row in setting_rows({"RedisUrl": "rediss://me:s3cret@cache.example:6379"}) if row["name"] == "RedisUrl"
    )

    assert found["value"] == "rediss://***@cache.example:6379"
