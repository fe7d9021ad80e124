"""What `make up` shows: counts, verdicts, and commands that work where they are pasted."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from proxypool.local import live_view, pool_table
from proxypool.local.stack import RunningStack
from proxypool.proxies.proxy import Status
from proxypool.proxies.record import CheckFacts, ProxyRecord
from rich.console import Console

from tests.support.builders import NOW, a_record

STACK = RunningStack(
    api_url="http://127.0.0.1:4566/_aws/execute-api/abc", redis_url="", endpoint_url="http://127.0.0.1:4566",
    access_key="0123456789abcdef", pid=1, outputs={},
    judge_url="http://127.0.0.1:8790/", farm=None, seconds={}, children={"farm": 2},
)  # fmt: skip


def shown(*records: ProxyRecord) -> str:
    console = Console(width=120)
    with console.capture() as captured:
        console.print(pool_table.render(records, "a note"))
    return captured.get()


def checked(number: int, *, signed: bool = True, tampered: bool = False, reason: str = "") -> ProxyRecord:
    facts = CheckFacts(signed=signed, tampered=tampered, reason=reason, latency_ms=12.0)
    return a_record(number, status=Status.ACTIVE, last_checked_at=NOW, check=facts)


def test_a_tampering_proxy_is_active_but_not_ready() -> None:
    counts = shown(checked(1), checked(2, tampered=True)).splitlines()[:2]

    numbers = dict(zip(counts[0].split()[1:], counts[1].split(), strict=True))
    assert (numbers["ready"], numbers["active"]) == ("1", "2")


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (checked(1), "signed"),
        (checked(1, signed=False), "unsigned"),  # checked by a public echo service
        (checked(1, reason="connection_refused"), "connection_refused"),
    ],
)
def test_a_verdict_is_the_reason_or_whether_the_response_was_signed(record: ProxyRecord, expected: str) -> None:
    assert pool_table.verdict(record) == expected
    assert expected in shown(record)


def test_an_empty_pool_shows_status_counts_only() -> None:
    assert "country" not in shown()
    assert "last checked" not in shown()


@pytest.mark.parametrize("home", ["/home/me/pool", "/home/me/my pool"])
def test_commands_work_in_any_folder(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", f"{home}/.venv/bin/python")

    lines = live_view.commands_to_copy(STACK, Path(home) / ".local", Path(home))

    assert shlex.split(lines[1]) == ["cd", home]
    assert "    .venv/bin/proxypool lease" in lines
    assert "    .venv/bin/proxypool fetch http://127.0.0.1:8790/ip" in lines


def test_commands_for_another_state_folder_contain_the_url() -> None:
    lines = live_view.commands_to_copy(STACK, Path("/tmp/other"), Path("/home/me/pool"))

    assert any(line.endswith(f"lease --url {STACK.api_url}") for line in lines)


def test_the_target_for_remote_proxies_is_a_public_one() -> None:
    remote = replace(STACK, judge_url="http://judge.example.com/", children={})

    lines = live_view.commands_to_copy(remote, Path("/home/me/pool/.local"), Path("/home/me/pool"))

    assert any(line.endswith("fetch http://httpbin.org/ip") for line in lines)


def test_a_second_start_mentions_the_state_of_the_previous_run(tmp_path: Path) -> None:
    first, second = (live_view.first_lease(seconds, tmp_path) for seconds in (11.0, 3.9))

    assert first.startswith("First lease after 11.0 s. The state is kept")
    assert second == "First lease after 3.9 s, with the state of the previous run (a fresh start took 11.0 s)."
