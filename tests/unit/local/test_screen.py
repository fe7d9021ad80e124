"""What `make up` shows: counts that a reader can act on, verdicts with their backing, lines that work where they are pasted."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from proxypool.local import live_view, pool_table
from proxypool.local.stack import Running
from proxypool.proxies.proxy import Status
from proxypool.proxies.record import CheckFacts, ProxyRecord
from rich.console import Console

from tests.support.builders import NOW, a_record

STACK = Running(
    api_url="http://127.0.0.1:4566/_aws/execute-api/abc", redis_url="", endpoint_url="http://127.0.0.1:4566",
    access_key="0123456789abcdef", pid=1, outputs={},
    judge_url="http://127.0.0.1:8790/", farm=None, seconds={}, children={"farm": 2},
)  # fmt: skip


def shown(*records: ProxyRecord) -> str:
    console = Console(width=120)
    with console.capture() as captured:
        console.print(pool_table.page(records, "a note"))
    return captured.get()


def checked(number: int, *, signed: bool = True, tampered: bool = False, reason: str = "") -> ProxyRecord:
    facts = CheckFacts(signed=signed, tampered=tampered, reason=reason, latency_ms=12.0)
    return a_record(number, status=Status.ACTIVE, last_checked_at=NOW, check=facts)


def test_a_proxy_that_alters_what_it_carries_is_active_but_not_ready() -> None:
    counts = shown(checked(1), checked(2, tampered=True)).splitlines()[:2]

    numbers = dict(zip(counts[0].split()[1:], counts[1].split(), strict=True))
    assert (numbers["ready"], numbers["active"]) == ("1", "2")


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (checked(1), "signed"),
        (checked(1, signed=False), "unsigned"),  # a public echo service vouches for it
        (checked(1, reason="connection_refused"), "connection_refused"),
    ],
)
def test_each_verdict_says_why_or_who_vouches_for_it(record: ProxyRecord, expected: str) -> None:
    assert pool_table.verdict(record) == expected
    assert expected in shown(record)


def test_an_empty_pool_shows_its_counts_alone() -> None:
    assert "country" not in shown()
    assert "last checked" not in shown()


@pytest.mark.parametrize("home", ["/home/me/pool", "/home/me/my pool"])
def test_the_lines_stand_on_their_own_wherever_the_project_lies(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", f"{home}/.venv/bin/python")

    lines = live_view.lines(STACK, Path(home) / ".local", Path(home))

    assert shlex.split(lines[1]) == ["cd", home]
    assert "    .venv/bin/proxypool lease" in lines
    assert "    .venv/bin/proxypool fetch http://127.0.0.1:8790/ip" in lines


def test_lines_for_a_state_folder_of_another_name_carry_the_address() -> None:
    lines = live_view.lines(STACK, Path("/tmp/other"), Path("/home/me/pool"))

    assert any(line.endswith(f"lease --url {STACK.api_url}") for line in lines)


def test_a_target_on_this_machine_is_not_offered_to_proxies_that_are_elsewhere() -> None:
    elsewhere = replace(STACK, judge_url="http://judge.example.com/", children={})

    lines = live_view.lines(elsewhere, Path("/home/me/pool/.local"), Path("/home/me/pool"))

    assert any(line.endswith("fetch http://httpbin.org/ip") for line in lines)


def test_a_second_start_says_that_it_leases_from_the_state_of_the_last(tmp_path: Path) -> None:
    first, second = (live_view.first_lease(seconds, tmp_path) for seconds in (11.0, 3.9))

    assert first.startswith("First lease after 11.0 s. The state is kept")
    assert second == "First lease after 3.9 s, from the state of the last run (a fresh start took 11.0 s)."
