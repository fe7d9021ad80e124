"""`proxypool up`, `down` and `status`: the local stack from the command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from proxypool_client.cli.output import Exit, client_errors, fail
from proxypool_client.cli.request import Json

from proxypool.local.process import LocalStackError

if TYPE_CHECKING:
    from proxypool_client.source_files import Entry
    from rich.console import Console

    from proxypool.local.stack import Plan, RunningStack
    from proxypool.local.user_sources import UserSources

FOLDER = Path(".local")
READY_FILE = "ready.json"  # the seconds to the first lease, or null if there was none within a minute
DETACH_SECONDS = 150
STOP_SECONDS = 40
PRINTED = ("api_url", "judge_url", "redis_url", "endpoint_url", "access_key", "pid", "first_lease_seconds")

local_app = typer.Typer(no_args_is_help=True)

Folder = Annotated[Path, typer.Option("--state", help="Folder for the state of the stack, which is kept between runs.")]


@local_app.command()
def up(
    sources: Annotated[
        Path | None, typer.Option(help="Your own sources: a .toml file with [[source]] tables, or a list of proxies.")
    ] = None,
    detach: Annotated[
        bool, typer.Option("--detach", help="Run in the background; return when a proxy can be leased.")
    ] = False,
    size: Annotated[int, typer.Option("-n", "--size", min=1, help="Number of proxies of the demo farm.")] = 100,
    as_json: Json = False,
    folder: Folder = FOLDER,
) -> None:
    """Start a local stack and show its pool until Ctrl-C.

    Neither an AWS account nor Docker is needed.
    """
    try:
        with _local_errors(as_json):
            if detach:
                result = _up_detached(sources, size, folder)
                if result["first_lease_seconds"] is None:
                    typer.echo(
                        f"proxypool: the stack runs, but no proxy can be leased yet; see {folder}/up.log", err=True
                    )
                _print(result, as_json)
            else:
                _up(sources, size, folder, as_json)
    except KeyboardInterrupt:
        typer.echo(f"Stopped. The state is kept in {folder}/ for the next start.", err=True)


@local_app.command()
def down(as_json: Json = False, folder: Folder = FOLDER) -> None:
    """Stop the local stack of this folder. Its state is kept."""
    from proxypool.local import state_folder

    with _local_errors(as_json):
        state_folder.check_trusted(folder)
    pid = state_folder.lock_owner(folder)
    if pid:
        os.kill(pid, signal.SIGTERM)
        end = time.monotonic() + STOP_SECONDS
        while (left := state_folder.lock_owner(folder)) and time.monotonic() < end:
            time.sleep(0.1)
        if left:
            fail(Exit.FAILED, f"process {left} did not end within {STOP_SECONDS} s; see {folder}/up.log", as_json)
    cleaned = not pid and state_folder.clean_up(folder, lambda line: typer.echo(line, err=True))
    stopped = bool(pid or cleaned)
    typer.echo(json.dumps({"stopped": stopped}) if as_json else ("stopped" if stopped else "no stack is running"))


@local_app.command()
def status(as_json: Json = False, folder: Folder = FOLDER) -> None:
    """Show the local stack of this folder and its pool.

    Exit code 6 if no stack is running.
    """
    from proxypool_client.api import Api
    from proxypool_client.errors import PoolError
    from proxypool_client.local_stack import LocalUrl

    from proxypool.local import state_folder
    from proxypool.local.stack import read_state

    with _local_errors(as_json):
        stack = read_state(folder)
    if not stack:
        pid = state_folder.lock_owner(folder)
        text = (
            f"a stack is starting or stopping (process {pid})"
            if pid
            else "no stack is running; start one with `proxypool up`"
        )
        typer.echo(json.dumps({"running": False, "process": pid}) if as_json else text)
        raise typer.Exit(Exit.UNREACHABLE)
    with closing(Api(LocalUrl(stack.api_url))) as api:
        try:
            pool: Any = api.request("GET", "/stats/pool")
        except PoolError as error:
            pool = {"error": str(error)}
    _print({"running": True, **asdict(stack), "pool": pool}, as_json)


@contextmanager
def _local_errors(as_json: bool) -> Iterator[None]:
    """Turns errors of the local stack and of its API into one line on stderr and an exit code."""
    with client_errors(as_json):
        try:
            yield
        except LocalStackError as error:
            fail(Exit.FAILED, str(error), as_json)


def _up(sources: Path | None, size: int, folder: Path, as_json: bool) -> None:
    from rich.console import Console

    from proxypool.local import stack_sources, state_folder
    from proxypool.local.stack import run_stack
    from proxypool.local.user_sources import read_user_sources

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # SIGHUP: the terminal's window was closed
        signal.signal(number, _interrupt)
    started = time.monotonic()
    console = Console(stderr=as_json)
    state_folder.raise_if_locked(folder)
    user_sources = read_user_sources(sources) if sources else None
    plan = _plan(user_sources, size, folder)
    console.print(_greeting(user_sources, plan), soft_wrap=True, highlight=False)

    def log(line: str) -> None:
        console.print(f"  {line}", soft_wrap=True, markup=False)

    with run_stack(plan, log) as stack:
        try:
            entries = user_sources.entries if user_sources else [stack_sources.demo_source(Path(stack.farm or ""))]
            _follow(stack, entries, plan, console, started, as_json)
        except KeyboardInterrupt:
            console.print("Stopping, this takes a few seconds.")
            raise


def _follow(
    stack: RunningStack, entries: Sequence[Entry], plan: Plan, console: Console, started: float, as_json: bool
) -> None:
    """Sends the sources to a running stack, prints the time to the first lease and commands to copy, shows the pool."""
    from proxypool_client.api import Api
    from proxypool_client.local_stack import LocalUrl

    from proxypool.local import live_view, stack_sources

    def report(seconds: float | None) -> None:
        text = live_view.no_proxy_yet(api) if seconds is None else [live_view.first_lease(seconds, plan.data)]
        if not console.is_terminal:
            console.print(live_view.status_view(stack, started))
        for line in text + live_view.commands_to_copy(stack, plan.folder, plan.root):
            console.print(line, soft_wrap=True, markup=False, highlight=False)
        if as_json:
            typer.echo(json.dumps({**asdict(stack), "first_lease_seconds": seconds}))

    with closing(Api(LocalUrl(stack.api_url))) as api:
        first = None
        if stack.has_state and live_view.can_lease(api):  # before the scrapes, which take all CPUs for seconds
            first = round(time.monotonic() - started, 1)
            report(first)
        for line in stack_sources.sync(api, entries, plan.data):
            console.print(f"  {line}", soft_wrap=True, markup=False)
        if first is None:
            first = live_view.wait_for_lease(stack, api, console, started)
            report(first)
        (plan.folder / READY_FILE).write_text(json.dumps(first))  # lets `up --detach` return
        live_view.follow(stack, console, started)


def _greeting(user_sources: UserSources | None, plan: Plan) -> str:
    if user_sources is None:
        return f"Demo: {plan.farm_size} proxies on loopback (127.x.y.z), working and broken ones, with an emulated AWS."
    from proxypool.local.user_sources import RULE

    judge = user_sources.judge
    if judge is None:
        return "Your own sources, all on loopback: the stack's own judge checks them."
    signed = "signed" if judge.key else "unsigned: a proxy can alter its responses unnoticed"
    return f"Your own sources, judge {judge.url}, {signed}. Please {RULE}."


def _plan(user_sources: UserSources | None, size: int, folder: Path) -> Plan:
    from proxypool.local.stack import Plan

    folder = folder.resolve()
    root = folder.parent if (folder.parent / "template.yaml").exists() else Path.cwd()
    if user_sources is None:
        return Plan(root=root, folder=folder, farm_size=size)
    return Plan(root=root, folder=folder, farm_size=0, judge=user_sources.judge)


def _up_detached(sources: Path | None, size: int, folder: Path) -> dict[str, Any]:
    """Runs `up` in a new session until a proxy can be leased; raises LocalStackError with its last line if it ends before."""
    from proxypool.local import state_folder
    from proxypool.local.stack import read_state

    state_folder.raise_if_locked(folder)
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
        stack = read_state(folder)
        if stack and ready.exists():
            return {**asdict(stack), "first_lease_seconds": json.loads(ready.read_text() or "null")}
        time.sleep(0.1)
    lines = log.read_text(errors="replace").strip().splitlines() or [f"no output within {DETACH_SECONDS} s"]
    child.terminate()
    raise LocalStackError(lines[-1].removeprefix("proxypool: "))


def _print(value: dict[str, Any], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(value))
        return
    for name in PRINTED:
        if value.get(name) is not None:
            typer.echo(f"{name}\t{value[name]}")
    for name, item in (value.get("pool") or {}).items():
        typer.echo(f"pool.{name}\t{item if isinstance(item, int | str | float) else json.dumps(item)}")


def _interrupt(*_: object) -> None:
    """Raises KeyboardInterrupt at the first signal; later ones are ignored, so that the servers can save their state."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


if __name__ == "__main__":
    local_app()
