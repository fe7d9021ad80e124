"""Starts and stops the local stack: Valkey, the emulated AWS with the deployed template, the judge and the demo farm."""

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
from proxypool.local.emulation.metrics_forwarder import MetricsForwarder
from proxypool.local.emulation.valkey import start_valkey, wait_for_valkey
from proxypool.local.process import LOOPBACK, LocalStackError
from proxypool.local.user_sources import JudgeConfig

STATE_FILE = "stack.json"
FARM_FILE = "farm.json"
OPEN_FILES = 1_024  # two connections per check of a batch of 200, and those of the farm
FARM_SECONDS = 20
PREFERRED_PORTS = {"aws": 4566, "valkey": 6390, "judge": 8790, "judge https": 8791}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to start. `farm_size` 0: no demo farm, the user's own sources. `judge` None: the stack starts one on loopback.

    `parameters` and `settings` (see proxypool.config.settings) override those of the local stack.
    """

    root: Path  # the folder of template.yaml
    folder: Path  # the state folder: stack.json and the folder `data`
    farm_size: int = 100
    judge: JudgeConfig | None = None
    parameters: Mapping[str, str] | None = None
    settings: Mapping[str, Value] | None = None
    any_ports: bool = False  # any free ports instead of the preferred ones, for tests
    farm_options: tuple[str, ...] = ()

    @property
    def data(self) -> Path:
        """The folder of the servers' data; the demo and the user's own sources have separate ones."""
        return self.folder / ("demo" if self.farm_size else "own")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningStack:
    """The addresses of a running stack: the content of .local/stack.json. `farm` is the path of the farm's manifest, or None.

    `access_key` is the access key id of AWS requests and the password in `redis_url`; `api_url` contains a token derived from it.
    """

    api_url: str
    redis_url: str
    endpoint_url: str
    access_key: str
    pid: int
    outputs: dict[str, str]
    judge_url: str
    farm: str | None
    seconds: dict[str, float]  # of the steps of the start
    children: dict[str, int]  # process ids
    has_state: bool = False  # it was started with the state of a previous run


@contextmanager
def run_stack(plan: Plan, log: Callable[[str], None] = lambda _: None) -> Iterator[RunningStack]:
    """Runs the stack in the block, with stack.json in its folder; `log` receives a line per step and per port in use.

    Raises LocalStackError, one line for the user, if something is missing or does not start.
    """
    if not (plan.root / "template.yaml").is_file():
        raise LocalStackError(f"no template.yaml in {plan.root}: run this command in the project's folder")
    raise_open_files()
    before, access_key = dict(os.environ), new_access_key()
    state_file = plan.folder / STATE_FILE
    with ExitStack() as exit_stack:
        exit_stack.enter_context(state_folder.private_files())
        exit_stack.enter_context(state_folder.locked(plan.folder))
        state_folder.clean_up(plan.folder, log)
        plan.data.mkdir(exist_ok=True)
        plan.data.chmod(0o700)  # an older version created it readable by others
        exit_stack.callback(_restore, before)
        os.environ.update({**process.no_proxy(), **credentials(access_key)})
        exit_stack.callback(state_folder.write_children, plan.folder, plan.data, {})
        stack = _start(plan, access_key, exit_stack, log)
        state_folder.write_private(state_file, json.dumps(asdict(stack), indent=1))
        exit_stack.callback(state_file.unlink, missing_ok=True)
        yield stack


def _start(plan: Plan, access_key: str, exit_stack: ExitStack, log: Callable[[str], None]) -> RunningStack:
    ports = choose_ports(plan, log)
    timer = _StepTimer(log)
    children = _Children(plan, exit_stack)
    has_state = (plan.data / "aws" / "state").exists()
    valkey = children.add("valkey", start_valkey(plan.data / "valkey", ports["valkey"], access_key))
    aws = children.add("aws", start_emulator(plan.data / "aws", ports["aws"], access_key))
    judge = plan.judge or _start_judge(plan, ports, children, log)
    from proxypool.local.emulation.deploy import deploy  # slow to import; the servers start meanwhile

    wait_for_valkey(valkey, ports["valkey"], access_key)
    wait_for_emulator(aws, ports["aws"])
    timer.finish("servers")
    clients = Clients(endpoint(ports["aws"]), access_key)
    redis_url = f"redis://:{access_key}@{LOOPBACK}:{ports['valkey']}"
    api = api_base(endpoint(ports["aws"]), access_key)
    outputs = deploy(
        plan.root / "template.yaml",
        clients,
        template_parameters(plan, judge, redis_url) | {"ApiBase": api},
    )
    if judge.key:
        clients("secretsmanager").put_secret_value(SecretId=outputs["JudgeSecretArn"], SecretString=judge.key)
    # Instead of waiting for the schedules: expire_leases initialises the cache or rebuilds a lost one, and the sweep queues
    # the checks that became due while the stack was stopped.
    for name in ("ExpireLeasesFunction", *(["RevalidateSweepFunction"] if has_state else [])):
        clients("lambda").invoke(FunctionName=outputs[name], InvocationType="Event", Payload=b"{}")
    timer.finish("deploy")
    metrics = MetricsForwarder(clients)
    metrics.start()
    exit_stack.callback(metrics.stop)
    return RunningStack(
        api_url=f"{api}/{outputs['ApiId']}",
        redis_url=redis_url,
        endpoint_url=endpoint(ports["aws"]),
        access_key=access_key,
        pid=os.getpid(),
        outputs=outputs,
        judge_url=judge.url,
        farm=str(plan.data / FARM_FILE) if plan.farm_size else None,
        seconds=timer.seconds,
        children=children.pids,
        has_state=has_state,
    )


def _start_judge(plan: Plan, ports: Mapping[str, int], children: _Children, log: Callable[[str], None]) -> JudgeConfig:
    """Starts judge and farm (one process); if another process took a port of the judge meanwhile, on other ports."""
    key = secrets.token_hex(32)
    farm = children.add("farm", start_farm(plan, ports, key))
    try:
        manifest = wait_for_farm(farm, plan.data)
    except LocalStackError:
        process.stop(farm)
        log("a port of the judge is in use: it listens on another one")
        farm = children.add("farm", start_farm(plan, {"judge": 0, "judge https": 0}, key))
        manifest = wait_for_farm(farm, plan.data)
    return JudgeConfig(url=manifest["judge_url"], https_url=manifest["judge_https_url"], key=key)


class _Children:
    """Child processes: recorded at once, so that the next run can stop those of a killed one, and stopped by `exit_stack`."""

    def __init__(self, plan: Plan, exit_stack: ExitStack) -> None:
        self.pids: dict[str, int] = {}
        self._plan, self._exit_stack = plan, exit_stack

    def add(self, name: str, child: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
        """Records the child and returns it."""
        self._exit_stack.callback(process.stop, child)
        self.pids[name] = child.pid
        state_folder.write_children(self._plan.folder, self._plan.data, self.pids)
        return child


def _restore(environment: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)


class _StepTimer:
    """Measures and logs the duration of each step of the start."""

    def __init__(self, log: Callable[[str], None]) -> None:
        self.seconds: dict[str, float] = {}
        self._log, self._last = log, time.perf_counter()

    def finish(self, step: str) -> None:
        """The step is done; the next one begins."""
        now = time.perf_counter()
        self.seconds[step] = round(now - self._last, 2)
        self._last = now
        self._log(f"{step}: {self.seconds[step]} s")


def choose_ports(plan: Plan, log: Callable[[str], None]) -> dict[str, int]:
    """A free port per server; logs each preferred port that is in use."""
    ports: dict[str, int] = {}
    for name, preferred in PREFERRED_PORTS.items():
        ports[name] = process.free_port(0 if plan.any_ports else preferred)
        if not plan.any_ports and ports[name] != preferred:
            log(f"port {preferred} is in use: {name} listens on {ports[name]}")
    return ports


def template_parameters(plan: Plan, judge: JudgeConfig, redis_url: str) -> dict[str, str]:
    """The template's parameters for a local stack. Only here are proxies and URLs on loopback, and lists from files, allowed."""
    settings: dict[str, Value] = {
        "allow_loopback": True, "allow_files": True, "cache_loss": "availability", "jobs_any_domain": True,
        "jobs_allow_http": True, "judge_ca_file": "" if plan.judge else str(plan.data / "ca.pem"),
    }  # fmt: skip
    values = {"RedisUrl": redis_url, "Pace": "test", "BudgetUsd": "0", "Monitoring": "false",
             "ValidateWidth": str(max(4, os.cpu_count() or 4)),  # each is a Python process with up to 200 concurrent checks
             "AcknowledgePublicLists": "yes"}  # fmt: skip  # the demo has none; user_sources requires it for the user's
    if judge.key:
        values |= {"JudgeUrl": judge.url, "JudgeHttpsUrl": judge.https_url}
    else:
        values["JudgeUrl"] = "none"
        settings["judge_echo_urls"] = (judge.url,)
    return values | {"Overrides": overrides(**settings | dict(plan.settings or {}))} | dict(plan.parameters or {})


def start_farm(plan: Plan, ports: Mapping[str, int], key: str) -> subprocess.Popen[bytes]:
    """Starts judge and farm in one process; the judge's key is in a file that only this user can read."""
    key_file = plan.data / "judge.key"
    state_folder.write_private(key_file, key)
    (plan.data / FARM_FILE).unlink(missing_ok=True)
    command = [sys.executable, "-m", "proxypool.local.farm.server", "--judge-port", str(ports["judge"]),
               "--judge-https-port", str(ports["judge https"]), "--key-file", str(key_file),
               "--state-dir", str(plan.data), "-n", str(plan.farm_size), *plan.farm_options]  # fmt: skip
    return process.start(command, log=plan.data / "farm.log")


def wait_for_farm(child: subprocess.Popen[bytes], data: Path) -> dict[str, Any]:
    """Waits until judge and farm accept connections, and returns the farm's manifest; raises LocalStackError after 20 s."""
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
    """Sets this process's limit of open files to the permitted maximum; raises LocalStackError if that is too low."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = hard if hard != resource.RLIM_INFINITY else 65_536
    if soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(allowed, 65_536), hard))
    if allowed < OPEN_FILES:
        raise LocalStackError(f"the limit of open files is {allowed}, but {OPEN_FILES} are needed: see `ulimit -Hn`")


def read_state(folder: Path) -> RunningStack | None:
    """The running stack of this state folder; None if there is none, or if it is starting or was killed.

    Raises LocalStackError where other users could have written into the folder.
    """
    state_folder.check_trusted(folder)
    try:
        stack = RunningStack(**json.loads((folder / STATE_FILE).read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return None
    return stack if state_folder.lock_owner(folder) == stack.pid else None
