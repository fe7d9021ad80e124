"""`proxypool up`, `down` and `status`: the local stack from the command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from proxypool.local.process import LocalStackError, is_alive

FOLDER = Path(".local")
DETACH_SECONDS = 90
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
        if detach:
            _print(_detached(sources, size, folder), as_json)
        else:
            _attached(sources, size, folder, as_json)
    except LocalStackError as error:
        typer.echo(f"proxypool: {error}", err=True)
        raise typer.Exit(1) from error
    except KeyboardInterrupt:
        typer.echo(f"stopped; {folder}/ keeps the state for the next start", err=True)


@local_app.command()
def down(as_json: Json = False, folder: Folder = FOLDER) -> None:
    """Stop a stack that runs in the background, by its process id. State is kept."""
    from proxypool.local.stack import read_state

    found = read_state(folder)
    if found:
        os.kill(found.pid, signal.SIGTERM)
        end = time.monotonic() + STOP_SECONDS
        while is_alive(found.pid) and time.monotonic() < end:
            time.sleep(0.1)
    stopped = found is not None and not is_alive(found.pid)
    typer.echo(json.dumps({"stopped": stopped}) if as_json else ("stopped" if stopped else "nothing runs here"))


@local_app.command()
def status(as_json: Json = False, folder: Folder = FOLDER) -> None:
    """Say whether a stack runs here, where, and how the pool is. Exit code 6 when none runs."""
    from proxypool.local.seed import call
    from proxypool.local.stack import read_state

    found = read_state(folder)
    if not found:
        typer.echo(json.dumps({"running": False}) if as_json else "nothing runs here: `proxypool up` starts it")
        raise typer.Exit(6)
    try:
        pool: Any = call(found.api_url, "GET", "/stats/pool")
    except LocalStackError as error:
        pool = {"error": str(error)}
    _print({"running": True, **asdict(found), "pool": pool}, as_json)


def _attached(sources: Path | None, size: int, folder: Path, as_json: bool) -> None:
    from rich.console import Console

    from proxypool.local import table
    from proxypool.local.emulator import Clients
    from proxypool.local.seed import farm_source, read_sources, seed
    from proxypool.local.stack import running

    signal.signal(signal.SIGTERM, _interrupt)
    started = time.monotonic()
    console = Console(stderr=as_json)
    own = read_sources(sources) if sources else []
    again = (folder / "aws" / "state").exists()
    with running(_plan(own, size, folder), console.print) as stack:
        seed(stack.outputs, Clients(stack.endpoint_url), own or [farm_source(Path(stack.farm or ""))])
        lease = table.wait_for_proxy(stack)
        seconds = round(time.monotonic() - started, 1)
        kept = f" (with the state of the last run, kept in {folder}/)" if again else ""
        console.print(f"first lease after {seconds} s{kept}" if lease else "no proxy answers yet: see the table")
        for line in table.lines(stack):
            console.print(line, soft_wrap=True, markup=False, highlight=False)
        if as_json:
            typer.echo(json.dumps({**asdict(stack), "first_lease_seconds": seconds if lease else None}))
        (folder / "ready").write_text(str(seconds))
        table.watch(stack, console, started) if console.is_terminal else signal.pause()


def _plan(own: list[dict[str, Any]], size: int, folder: Path) -> Any:
    from proxypool.local.seed import is_loopback_only
    from proxypool.local.stack import Plan

    root = folder.resolve().parent if (folder.resolve().parent / "template.yaml").exists() else Path.cwd()
    if not own:
        return Plan(root=root, folder=folder.resolve(), farm_size=size)
    return Plan(
        root=root,
        folder=folder.resolve(),
        farm_size=0,
        with_judge=is_loopback_only(own),  # the loopback judge can be reached by proxies on loopback alone
        judge_url=os.environ.get("PROXYPOOL_JUDGE_URL", "http://httpbin.org/get"),
        judge_https_url=os.environ.get("PROXYPOOL_JUDGE_HTTPS_URL", "https://httpbin.org/get"),
    )


def _detached(sources: Path | None, size: int, folder: Path) -> dict[str, Any]:
    from proxypool.local.stack import read_state, refuse_second

    refuse_second(folder)
    folder.mkdir(parents=True, exist_ok=True)
    ready, log = folder / "ready", folder / "up.log"
    ready.unlink(missing_ok=True)
    command = [sys.executable, "-m", "proxypool.local.commands", "up", "--state", str(folder), "-n", str(size)]
    with log.open("wb") as output:
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
            return {**asdict(found), "ready_seconds": float(ready.read_text())}
        time.sleep(0.1)
    lines = log.read_text(errors="replace").strip().splitlines() or ["it did not start"]
    child.terminate()
    raise LocalStackError(lines[-1].removeprefix("proxypool: "))


def _print(value: dict[str, Any], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(value))
        return
    for name in ("api_url", "judge_url", "redis_url", "endpoint_url", "pid", "ready_seconds"):
        if name in value:
            typer.echo(f"{name}\t{value[name]}")
    for name, item in (value.get("pool") or {}).items():
        typer.echo(f"pool.{name}\t{item if isinstance(item, int | str | float) else json.dumps(item)}")


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    local_app()
