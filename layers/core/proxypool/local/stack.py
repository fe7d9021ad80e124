"""The whole stack in start order: Valkey and emulator, deploy, judge and farm. Everything ends when the block is left."""

from __future__ import annotations

import json
import os
import resource
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from proxypool.config.overrides import Value
from proxypool.config.settings import overrides
from proxypool.local import process, state_folder
from proxypool.local.emulation.access import api_base, credentials, new_access_key
from proxypool.local.emulation.emulator import Clients, endpoint, start_emulator, wait_for_emulator
from proxypool.local.emulation.metrics_forwarder import Forwarder
from proxypool.local.emulation.valkey import start_valkey, wait_for_valkey
from proxypool.local.process import LOOPBACK, LocalStackError
from proxypool.local.user_sources import OwnJudge

STATE_FILE = "stack.json"
FARM_FILE = "farm.json"
OPEN_FILES = 1_024  # two connections for each of 200 checks at once, and the farm's own
FARM_SECONDS = 20
PREFERRED_PORTS = {"aws": 4566, "valkey": 6390, "judge": 8790, "judge https": 8791}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to start. `farm_size` 0: no farm, the reader's own sources. `judge` is one elsewhere; None: one on loopback.

    `parameters` and `settings` (see proxypool.config.settings) replace those of the local stack.
    """

    root: Path  # the folder of template.yaml
    folder: Path  # where state is kept between runs: stack.json, and below it `data`
    farm_size: int = 100
    judge: OwnJudge | None = None
    parameters: Mapping[str, str] | None = None
    settings: Mapping[str, Value] | None = None
    own_ports: bool = False  # free ports instead of the preferred ones: tests
    farm_options: tuple[str, ...] = ()

    @property
    def data(self) -> Path:
        """What this kind of run keeps: the demo's proxies never mix with the reader's own."""
        return self.folder / ("demo" if self.farm_size else "own")


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """Where a running stack is: what .local/stack.json holds. `farm` is the file of the farm's manifest, or None.

    `access_key` is the access key id of AWS requests, and the password in `redis_url`; `api_url` has a token derived from it.
    """

    api_url: str
    redis_url: str
    endpoint_url: str
    access_key: str
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
    before, access_key = dict(os.environ), new_access_key()
    state_file = plan.folder / STATE_FILE
    with ExitStack() as way_out:
        way_out.enter_context(state_folder.private_files())
        way_out.enter_context(state_folder.held(plan.folder))
        state_folder.clean_up(plan.folder, tell)
        plan.data.mkdir(exist_ok=True)
        plan.data.chmod(0o700)  # kept files of an older version may be readable by others
        way_out.callback(_restore, before)
        os.environ.update({**process.no_proxy(), **credentials(access_key)})
        way_out.callback(state_folder.remember, plan.folder, plan.data, {})
        found = _start(plan, access_key, way_out, tell)
        state_folder.write_private(state_file, json.dumps(asdict(found), indent=1))
        way_out.callback(state_file.unlink, missing_ok=True)
        yield found


def _start(plan: Plan, access_key: str, way_out: ExitStack, tell: Callable[[str], None]) -> Running:
    ports = choose_ports(plan, tell)
    clock = _Clock(tell)
    children = _Children(plan, way_out)
    is_kept = (plan.data / "aws" / "state").exists()
    valkey = children.add("valkey", start_valkey(plan.data / "valkey", ports["valkey"], access_key))
    aws = children.add("aws", start_emulator(plan.data / "aws", ports["aws"], access_key))
    judge = plan.judge or _own_judge(plan, ports, children, tell)
    from proxypool.local.emulation.deploy import deploy  # slow to load, meanwhile the servers start

    wait_for_valkey(valkey, ports["valkey"], access_key)
    wait_for_emulator(aws, ports["aws"])
    clock.lap("servers")
    clients = Clients(endpoint(ports["aws"]), access_key)
    redis_url = f"redis://:{access_key}@{LOOPBACK}:{ports['valkey']}"
    api = api_base(endpoint(ports["aws"]), access_key)
    outputs = deploy(
        plan.root / "template.yaml",
        clients,
        parameters(plan, judge, redis_url) | {"ApiBase": api},
    )
    if judge.key:
        clients("secretsmanager").put_secret_value(SecretId=outputs["JudgeSecretArn"], SecretString=judge.key)
    # The first run opens the pool (its epoch), or rebuilds what the cache lost; the schedule would take a minute. And what
    # became due while nothing ran is checked now, not by the sweep of the next quarter of an hour.
    for name in ("ExpireLeasesFunction", *(["RevalidateSweepFunction"] if is_kept else [])):
        clients("lambda").invoke(FunctionName=outputs[name], InvocationType="Event", Payload=b"{}")
    clock.lap("deploy")
    metrics = Forwarder(clients)
    metrics.start()
    way_out.callback(metrics.stop)
    return Running(
        api_url=f"{api}/{outputs['ApiId']}",
        redis_url=redis_url,
        endpoint_url=endpoint(ports["aws"]),
        access_key=access_key,
        pid=os.getpid(),
        outputs=outputs,
        judge_url=judge.url,
        farm=str(plan.data / FARM_FILE) if plan.farm_size else None,
        seconds=clock.seconds,
        children=children.pids,
    )


def _own_judge(plan: Plan, ports: Mapping[str, int], children: _Children, tell: Callable[[str], None]) -> OwnJudge:
    """The judge on loopback, with the farm in one process; on other ports where somebody was faster than we."""
    key = secrets.token_hex(32)
    farm = children.add("farm", start_farm(plan, ports, key))
    try:
        manifest = wait_for_farm(farm, plan.data)
    except LocalStackError:
        process.stop(farm)
        tell("a port of the judge was taken just now: it listens on others")
        farm = children.add("farm", start_farm(plan, {"judge": 0, "judge https": 0}, key))
        manifest = wait_for_farm(farm, plan.data)
    return OwnJudge(url=manifest["judge_url"], https_url=manifest["judge_https_url"], key=key)


class _Children:
    """Starts are written down at once, so that the next run finds what a killed one left; each child is stopped on the way out."""

    def __init__(self, plan: Plan, way_out: ExitStack) -> None:
        self.pids: dict[str, int] = {}
        self._plan, self._way_out = plan, way_out

    def add(self, name: str, child: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
        """The child, now under care."""
        self._way_out.callback(process.stop, child)
        self.pids[name] = child.pid
        state_folder.remember(self._plan.folder, self._plan.data, self.pids)
        return child


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


def parameters(plan: Plan, judge: OwnJudge, redis_url: str) -> dict[str, str]:
    """The template's parameters on this machine. Loopback and files are allowed here and nowhere else."""
    settings: dict[str, Value] = {
        "allow_loopback": True, "allow_files": True, "cache_loss": "availability", "jobs_any_domain": True,
        "jobs_allow_http": True, "judge_ca_file": "" if plan.judge else str(plan.data / "ca.pem"),
    }  # fmt: skip
    found = {"RedisUrl": redis_url, "Pace": "test", "BudgetUsd": "0", "Monitoring": "false",
             "ValidateWidth": str(max(4, os.cpu_count() or 4)),  # each starts a Python; a batch has 200 checks in flight
             "AcknowledgePublicLists": "yes"}  # fmt: skip  # the demo has none; `own.py` asks where the reader's file does
    if judge.key:
        found |= {"JudgeUrl": judge.url, "JudgeHttpsUrl": judge.https_url}
    else:
        found["JudgeUrl"] = "none"
        settings["judge_echo_urls"] = (judge.url,)
    return found | {"Overrides": overrides(**settings | dict(plan.settings or {}))} | dict(plan.parameters or {})


def start_farm(plan: Plan, ports: Mapping[str, int], key: str) -> subprocess.Popen[bytes]:
    """Starts the judge with the farm (one process); the judge's key is in a file that only this user reads."""
    key_file = plan.data / "judge.key"
    state_folder.write_private(key_file, key)
    (plan.data / FARM_FILE).unlink(missing_ok=True)
    command = [sys.executable, "-m", "proxypool.local.farm.server", "--judge-port", str(ports["judge"]),
               "--judge-https-port", str(ports["judge https"]), "--key-file", str(key_file),
               "--state-dir", str(plan.data), "-n", str(plan.farm_size), *plan.farm_options]  # fmt: skip
    return process.start(command, log=plan.data / "farm.log")


def wait_for_farm(child: subprocess.Popen[bytes], data: Path) -> dict[str, Any]:
    """The farm's manifest, when all its proxies and the judge listen; raises LocalStackError when they do not."""
    end = time.monotonic() + FARM_SECONDS
    while child.poll() is None and time.monotonic() < end:
        try:
            manifest: dict[str, Any] = json.loads((data / FARM_FILE).read_text())
        except (FileNotFoundError, ValueError):
            time.sleep(0.03)
        else:
            return manifest
    raise LocalStackError(f"the farm of proxies did not start; see {data / 'farm.log'}")


def raise_open_files() -> None:
    """Raises this process's limit of open files as far as it may; raises LocalStackError when that is too low."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = hard if hard != resource.RLIM_INFINITY else 65_536
    if soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 65_536), hard))
    if most < OPEN_FILES:
        raise LocalStackError(f"only {most} open files are allowed here, {OPEN_FILES} are needed: see `ulimit -Hn`")


def read_state(folder: Path) -> Running | None:
    """The stack that runs with this state folder, or None; one that was killed, or only starts, counts as none.

    Raises LocalStackError where others could have written into the folder.
    """
    state_folder.refuse_foreign(folder)
    try:
        found = Running(**json.loads((folder / STATE_FILE).read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return None
    return found if state_folder.holder(folder) == found.pid else None
