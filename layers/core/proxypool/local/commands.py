"""`proxypool up`, `down` and `status`: the local stack from the command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from proxypool.local.process import LocalStackError

FOLDER = Path(".local")
READY_FILE = "ready.json"  # the seconds to the first lease, when it is clear; null: there was none
DETACH_SECONDS = 150
STOP_SECONDS = 40

local_app = typer.Typer(help="The stack on this machine: no AWS account, no Docker.", no_args_is_help=True)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Folder = Annotated[Path, typer.Option("--state", help="Where state is kept between runs.")]


@local_app.command()
def up(
    sources: Annotated[
        Path | None, typer.Option(help="Your own sources: a .toml of [[source]] tables, or a list.")
    ] = None,
    detach: Annotated[
        bool, typer.Option("--detach", help="Return when a proxy can be leased; `down` stops it.")
    ] = False,
    size: Annotated[int, typer.Option("-n", "--size", help="How many proxies the demo farm has.")] = 100,
    as_json: Json = False,
    folder: Folder = FOLDER,
) -> None:
    """Start everything and show the pool coming alive, until Ctrl-C."""
    try:
        with _one_line():
            if detach:
                found = _detached(sources, size, folder)
                if found["first_lease_seconds"] is None:
                    typer.echo(f"proxypool: it runs, no proxy can be leased yet; see {folder}/up.log", err=True)
                _print(found, as_json)
            else:
                _attached(sources, size, folder, as_json)
    except KeyboardInterrupt:
        typer.echo(f"Everything is stopped. What the pool knows is kept in {folder}/ for the next start.", err=True)


@local_app.command()
def down(as_json: Json = False, folder: Folder = FOLDER) -> None:
    """Stop the stack of this folder, by its process id. State is kept."""
    from proxypool.local import state_folder

    with _one_line():
        state_folder.refuse_foreign(folder)
    found = state_folder.holder(folder)
    if found:
        os.kill(found, signal.SIGTERM)
        end = time.monotonic() + STOP_SECONDS
        while (left := state_folder.holder(folder)) and time.monotonic() < end:
            time.sleep(0.1)
        if left:
            typer.echo(f"proxypool: process {left} does not end; its log is {folder}/up.log", err=True)
            raise typer.Exit(1)
    cleaned = not found and state_folder.clean_up(folder, lambda line: typer.echo(line, err=True))
    stopped = bool(found or cleaned)
    typer.echo(json.dumps({"stopped": stopped}) if as_json else ("stopped" if stopped else "nothing runs here"))


@local_app.command()
def status(as_json: Json = False, folder: Folder = FOLDER) -> None:
    """Say whether a stack runs here, where, and how the pool is. Exit code 6 when none runs."""
    from proxypool.local import state_folder
    from proxypool.local.seed import call
    from proxypool.local.stack import read_state

    with _one_line():
        found = read_state(folder)
    if not found:
        busy = state_folder.holder(folder)
        what = (
            f"a stack starts or ends here (process {busy})" if busy else "nothing runs here: `proxypool up` starts it"
        )
        typer.echo(json.dumps({"running": False, "process": busy}) if as_json else what)
        raise typer.Exit(6)
    try:
        pool: Any = call(found.api_url, "GET", "/stats/pool")
    except LocalStackError as error:
        pool = {"error": str(error)}
    _print({"running": True, **asdict(found), "pool": pool}, as_json)


@contextmanager
def _one_line() -> Iterator[None]:
    """Turns a LocalStackError into one line on stderr and exit code 1."""
    try:
        yield
    except LocalStackError as error:
        typer.echo(f"proxypool: {error}", err=True)
        raise typer.Exit(1) from error


def _attached(sources: Path | None, size: int, folder: Path, as_json: bool) -> None:
    from rich.console import Console

    from proxypool.local import live_view, seed
    from proxypool.local.stack import running
    from proxypool.local.user_sources import read_own

    for number in (signal.SIGTERM, signal.SIGHUP):  # SIGHUP: the terminal's window was closed
        signal.signal(number, _interrupt)
    started = time.monotonic()
    console = Console(stderr=as_json)
    own = read_own(sources) if sources else None
    plan = _plan(own, size, folder)
    console.print(_greeting(own, plan), soft_wrap=True, highlight=False)
    with running(plan, lambda line: console.print(f"  {line}", soft_wrap=True)) as stack:
        listed = own.sources if own else [seed.farm_source(Path(stack.farm or ""))]
        for line in seed.seed(stack.api_url, listed, plan.data):
            console.print(f"  {line}", soft_wrap=True, markup=False)

        def tell(seconds: float | None) -> None:
            """The first lease, or its absence; then the lines to copy."""
            text = [live_view.first_lease(seconds, plan.data)] if seconds is not None else live_view.no_proxy_yet(stack)
            if not console.is_terminal:
                console.print(live_view.picture(stack, started))
            for line in text + live_view.lines(stack, plan.folder, plan.root):
                console.print(line, soft_wrap=True, markup=False, highlight=False)
            if as_json:
                typer.echo(json.dumps({**asdict(stack), "first_lease_seconds": seconds}))
            (plan.folder / READY_FILE).write_text(json.dumps(seconds))

        live_view.follow(stack, console, started, tell)


def _greeting(own: Any, plan: Any) -> str:
    if own is None:
        return f"A demo pool: {plan.farm_size} proxies on loopback (127.x.y.z), good and bad ones, and AWS emulated beside them."
    from proxypool.local.user_sources import RULE

    if own.judge is None:
        return "Your own sources, all on loopback: the stack's own judge checks them."
    judge = f"judge {own.judge.url}, " + (
        "signed" if own.judge.key else "unsigned: whoever carries an answer may alter it"
    )
    return f"Your own sources, {judge}. Please {RULE}."


def _plan(own: Any, size: int, folder: Path) -> Any:
    from proxypool.local.stack import Plan

    folder = folder.resolve()
    root = folder.parent if (folder.parent / "template.yaml").exists() else Path.cwd()
    if own is None:
        return Plan(root=root, folder=folder, farm_size=size)
    if own.judge is None:  # the loopback judge can be reached by proxies on loopback alone
        return Plan(root=root, folder=folder, farm_size=0)
    return Plan(root=root, folder=folder, farm_size=0, judge=own.judge)


def _detached(sources: Path | None, size: int, folder: Path) -> dict[str, Any]:
    from proxypool.local import state_folder
    from proxypool.local.stack import read_state

    state_folder.refuse_second(folder)
    state_folder.create(folder)
    ready, log = folder / READY_FILE, folder / "up.log"
    for file in (ready, log):
        file.unlink(missing_ok=True)
    command = [sys.executable, "-m", "proxypool.local.commands", "up", "--state", str(folder), "-n", str(size)]
    with state_folder.private_files(), log.open("wb") as output:
        child = subprocess.Popen(
            command + (["--sources", str(sources)] if sources else []),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    end = time.monotonic() + DETACH_SECONDS
    while child.poll() is None and time.monotonic() < end:
        found = read_state(folder)
        if found and ready.exists():
            return {**asdict(found), "first_lease_seconds": json.loads(ready.read_text() or "null")}
        time.sleep(0.1)
    lines = log.read_text(errors="replace").strip().splitlines() or ["it did not start"]
    child.terminate()
    raise LocalStackError(lines[-1].removeprefix("proxypool: "))


def _print(value: dict[str, Any], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(value))
        return
    for name in ("api_url", "judge_url", "redis_url", "endpoint_url", "access_key", "pid", "first_lease_seconds"):
        if value.get(name) is not None:
            typer.echo(f"{name}\t{value[name]}")
    for name, item in (value.get("pool") or {}).items():
        typer.echo(f"pool.{name}\t{item if isinstance(item, int | str | float) else json.dumps(item)}")


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    local_app()
