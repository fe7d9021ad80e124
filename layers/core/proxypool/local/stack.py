"""The whole stack in start order: Valkey and emulator, deploy, judge and farm. Everything ends when the block is left."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from proxypool.local import process
from proxypool.local.emulator import CREDENTIALS, Clients, endpoint, start_emulator, wait_for_emulator
from proxypool.local.forward import Forwarder
from proxypool.local.process import LOOPBACK, LocalStackError
from proxypool.local.valkey import start_valkey, wait_for_valkey

STATE_FILE = "stack.json"
API_PATH = "/_aws/execute-api"  # where the emulator answers for an HTTP API
FARM_FILE = "farm.json"
OPEN_FILES = 1_024  # two connections for each of 200 checks at once, and the farm's own
FARM_SECONDS = 20
PREFERRED_PORTS = {"aws": 4566, "valkey": 6390, "judge": 8790, "judge https": 8791}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to start. `farm_size` 0: no farm, the reader's own sources; then `judge_url` may name a judge elsewhere."""

    root: Path  # the folder of template.yaml
    folder: Path  # where state is kept between runs
    farm_size: int = 100
    with_judge: bool = True
    judge_url: str = ""
    judge_https_url: str = ""
    parameters: Mapping[str, str] | None = None
    own_ports: bool = False  # free ports instead of the preferred ones: tests
    farm_options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """Where a running stack is: what .local/stack.json holds. `farm` is the file of the farm's manifest, or None."""

    api_url: str
    redis_url: str
    endpoint_url: str
    pid: int
    outputs: dict[str, str]
    judge_url: str
    farm: str | None
    seconds: dict[str, float]
    children: dict[str, int]  # process ids


@contextmanager
def running(plan: Plan, tell: Callable[[str], None] = lambda _: None) -> Iterator[Running]:
    """Starts the stack, writes stack.json and yields where it is; `tell` hears one line per step and per moved port.

    Raises LocalStackError, one line for the reader, when something is missing or does not start.
    """
    if not (plan.root / "template.yaml").is_file():
        raise LocalStackError(f"no template.yaml in {plan.root}: run this in the project's folder")
    raise_open_files()
    plan.folder.mkdir(parents=True, exist_ok=True)
    refuse_second(plan.folder)
    before = dict(os.environ)
    os.environ.update({**process.no_proxy(), **CREDENTIALS})
    state_file = plan.folder / STATE_FILE
    with ExitStack() as way_out:
        way_out.callback(_restore, before)
        found = _start(plan, way_out, tell)
        state_file.write_text(json.dumps(asdict(found), indent=1))
        way_out.callback(state_file.unlink, missing_ok=True)
        yield found


def _start(plan: Plan, way_out: ExitStack, tell: Callable[[str], None]) -> Running:
    ports = choose_ports(plan, tell)
    clock = _Clock(tell)
    children = {
        "valkey": start_valkey(plan.folder / "valkey", ports["valkey"]),
        "aws": start_emulator(plan.folder / "aws", ports["aws"]),
    }
    for child in children.values():
        way_out.callback(process.stop, child)
    from proxypool.local.deploy import deploy  # slow to load, meanwhile both servers start

    wait_for_valkey(children["valkey"], ports["valkey"])
    wait_for_emulator(children["aws"], ports["aws"])
    clock.lap("servers")
    clients = Clients(endpoint(ports["aws"]))
    redis_url = f"redis://{LOOPBACK}:{ports['valkey']}"
    outputs = deploy(plan.root / "template.yaml", clients, parameters(plan, ports, redis_url))
    # The first run opens the pool (its epoch), or rebuilds what the cache lost; the schedule would take a minute.
    clients("lambda").invoke(FunctionName=outputs["ExpireLeasesFunction"], InvocationType="Event", Payload=b"{}")
    clock.lap("deploy")
    judge_url = plan.judge_url
    if plan.with_judge:
        key = clients("secretsmanager").get_secret_value(SecretId=outputs["JudgeSecretArn"])["SecretString"]
        children["farm"] = start_farm(plan, ports, key)
        way_out.callback(process.stop, children["farm"])
        judge_url = wait_for_farm(children["farm"], plan.folder)["judge_url"]
        clock.lap("farm")
    metrics = Forwarder(clients)
    metrics.start()
    way_out.callback(metrics.stop)
    return Running(
        api_url=f"{endpoint(ports['aws'])}{API_PATH}/{outputs['ApiId']}",
        redis_url=redis_url,
        endpoint_url=endpoint(ports["aws"]),
        pid=os.getpid(),
        outputs=outputs,
        judge_url=judge_url,
        farm=str(plan.folder / FARM_FILE) if plan.farm_size else None,
        seconds=clock.seconds,
        children={name: child.pid for name, child in children.items()},
    )


def _restore(environment: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)


class _Clock:
    """Tells what each step took."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self.seconds: dict[str, float] = {}
        self._tell, self._last = tell, time.perf_counter()

    def lap(self, step: str) -> None:
        """Ends a step."""
        now = time.perf_counter()
        self.seconds[step] = round(now - self._last, 2)
        self._last = now
        self._tell(f"{step}: {self.seconds[step]} s")


def choose_ports(plan: Plan, tell: Callable[[str], None]) -> dict[str, int]:
    """A free port for each server; a preferred one that is taken is told with the one used instead."""
    ports: dict[str, int] = {}
    for name, preferred in PREFERRED_PORTS.items():
        ports[name] = process.free_port(0 if plan.own_ports else preferred)
        if not plan.own_ports and ports[name] != preferred:
            tell(f"port {preferred} is taken: {name} listens on {ports[name]}")
    return ports


def parameters(plan: Plan, ports: Mapping[str, int], redis_url: str) -> dict[str, str]:
    """The template's parameters on this machine. Loopback and files are allowed here and nowhere else."""
    judge = {"JudgeUrl": plan.judge_url, "JudgeHttpsUrl": plan.judge_https_url, "JudgeCaFile": ""}
    if plan.with_judge:
        judge = {
            "JudgeUrl": f"http://{LOOPBACK}:{ports['judge']}/",
            "JudgeHttpsUrl": f"https://{LOOPBACK}:{ports['judge https']}/",
            "JudgeCaFile": str(plan.folder / "ca.pem"),
        }
    local = {"RedisUrl": redis_url, "AllowLoopback": "true", "AllowFiles": "true", "CacheLoss": "availability",
             "BudgetUsd": "0", "Monitoring": "false", "AcknowledgePublicLists": "yes",
             "JobsAnyDomain": "true", "JobsAllowHttp": "true",
             "ApiBase": f"{endpoint(ports['aws'])}{API_PATH}"}  # fmt: skip
    return {**local, **judge, **(plan.parameters or {})}


def start_farm(plan: Plan, ports: Mapping[str, int], key: str) -> subprocess.Popen[bytes]:
    """Starts the judge with the farm (one process); the judge's key is in a file that only this user reads."""
    key_file = plan.folder / "judge.key"
    key_file.touch(mode=0o600)
    key_file.write_text(key)
    (plan.folder / FARM_FILE).unlink(missing_ok=True)
    command = [sys.executable, "-m", "proxypool.local.farm", "--judge-port", str(ports["judge"]),
               "--judge-https-port", str(ports["judge https"]), "--key-file", str(key_file),
               "--state-dir", str(plan.folder), "-n", str(plan.farm_size), *plan.farm_options]  # fmt: skip
    return process.start(command, log=plan.folder / "farm.log")


def wait_for_farm(child: subprocess.Popen[bytes], folder: Path) -> dict[str, Any]:
    """The farm's manifest, when all its proxies and the judge listen; raises LocalStackError when they do not."""
    end = time.monotonic() + FARM_SECONDS
    while child.poll() is None and time.monotonic() < end:
        try:
            manifest: dict[str, Any] = json.loads((folder / FARM_FILE).read_text())
        except (FileNotFoundError, ValueError):
            time.sleep(0.03)
        else:
            return manifest
    raise LocalStackError(f"the farm of proxies did not start; see {folder / 'farm.log'}")


def raise_open_files() -> None:
    """Raises this process's limit of open files as far as it may; raises LocalStackError when that is too low."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = hard if hard != resource.RLIM_INFINITY else 65_536
    if soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 65_536), hard))
    if most < OPEN_FILES:
        raise LocalStackError(f"only {most} open files are allowed here, {OPEN_FILES} are needed: see `ulimit -Hn`")


def read_state(folder: Path) -> Running | None:
    """The stack that runs with this state folder, or None; one that was killed counts as none."""
    try:
        found = Running(**json.loads((folder / STATE_FILE).read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return None
    return found if process.is_alive(found.pid) else None


def refuse_second(folder: Path) -> None:
    """Raises LocalStackError when a stack already runs on this state folder."""
    found = read_state(folder)
    if found:
        raise LocalStackError(f"a stack already runs here (process {found.pid}): `proxypool down` stops it")
