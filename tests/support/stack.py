"""A local stack for end-to-end tests: template.yaml on free ports, in its own folder, with short retry delays and time limits."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from pathlib import Path
from typing import Any, TypeVar

from proxypool.config.overrides import Value
from proxypool.local.emulation.emulator import Clients
from proxypool.local.stack import Plan, RunningStack, run_stack

from tests.support.bus import EventRecorder

ROOT = Path(__file__).parents[2]
SECONDS: dict[str, Value] = {
    "scrape_retry_seconds": 1,
    "validate_retry_seconds": 1,
    "check_connect_seconds": 2,
    "check_stage_seconds": 6,
    "check_total_seconds": 15,
    "expire_retry_seconds": 0,
    "max_lease_seconds": 60,
}
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class LocalStack:
    """A running stack with its API, clients, logs and events."""

    running: RunningStack
    clients: Clients
    events: EventRecorder
    invoked: Counter[str] = field(default_factory=Counter)  # how often `invoke` called each function

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """One request to the HTTP API: (status, JSON)."""
        return self.call_with_headers(method, path, body, **headers)[:2]

    def call_with_headers(
        self, method: str, path: str, body: Any = None, *, url: str = "", **headers: str
    ) -> tuple[int, Any, dict[str, str]]:
        """One request to the HTTP API, or to the API at another `url`: (status, JSON, headers by lower-case name)."""
        data = None if body is None else json.dumps(body).encode()
        named = {"content-type": "application/json"} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        request = urllib.request.Request(
            f"{url or self.running.api_url}{path}", data=data, method=method, headers=named
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as response:
                return response.status, json.loads(response.read() or b"null"), lower_names(response.headers)
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read() or b"null"), lower_names(error.headers)

    def invoke(self, function: str, event: Any = None) -> Any:
        """Invokes a function by its logical name, e.g. "ExpireLeases"; raises AssertionError if it fails."""
        name = self.running.outputs[f"{function}Function"]
        self.invoked[function] += 1
        response = self.clients("lambda").invoke(FunctionName=name, Payload=json.dumps(event or {}).encode())
        payload = json.loads(response["Payload"].read() or b"null")
        assert "FunctionError" not in response, payload
        return payload

    def log(self, function: str) -> list[dict[str, Any]]:
        """The structured log lines of a function, in the order of their timestamps."""
        name = self.running.outputs[f"{function}Function"]
        group = self.clients("lambda").get_function_configuration(FunctionName=name)["LoggingConfig"]["LogGroup"]
        logs, lines = self.clients("logs"), []
        for stream in logs.describe_log_streams(logGroupName=group)["logStreams"]:
            page = logs.get_log_events(logGroupName=group, logStreamName=stream["logStreamName"], startFromHead=True)
            lines += [event["message"] for event in page["events"]]
        entries = [json.loads(line) for line in lines if line.startswith("{")]
        return sorted(entries, key=lambda line: str(line.get("timestamp", "")))  # each worker has its own stream

    def messages(self, queue: str) -> list[dict[str, Any]]:
        """Up to ten messages of a queue by its output, e.g. "ValidateDeadLetterQueue"; they are invisible for a second."""
        found = self.clients("sqs").receive_message(
            QueueUrl=self.running.outputs[f"{queue}Url"], MaxNumberOfMessages=10, VisibilityTimeout=1
        )
        return list(found.get("Messages", []))

    def command(self, *arguments: str) -> Any:
        """The output of `proxypool … --json` in the stack's folder."""
        run = [sys.executable, "-c", "from proxypool_client.cli.app import main; main()", *arguments, "--json"]
        done = subprocess.run(run, cwd=self.folder.parent, capture_output=True, text=True, timeout=150, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    @contextmanager
    def frozen(self, child: str) -> Iterator[None]:
        """Stops a child process ("valkey", "farm") during the block: it accepts connections and sends nothing."""
        os.kill(self.running.children[child], signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.running.children[child], signal.SIGCONT)

    def proxies(self) -> list[dict[str, Any]]:
        """All proxies of GET /proxies."""
        found: list[dict[str, Any]] = self.call("GET", "/proxies")[1]["proxies"]
        return found

    def statuses(self) -> Counter[str]:
        """The number of proxies by status."""
        return Counter(proxy["status"] for proxy in self.proxies())

    @property
    def tokens_url(self) -> str:
        """The URL of the API for callers with a token (JWT)."""
        return f"{self.running.api_url.rpartition('/')[0]}/{self.running.outputs['TokensApiId']}"

    @property
    def folder(self) -> Path:
        """The stack's state folder."""
        return Path(str(self.running.farm)).parent

    def farm(self) -> list[dict[str, Any]]:
        """The proxies of the farm with their actual properties."""
        assert self.running.farm is not None
        proxies: list[dict[str, Any]] = json.loads(Path(self.running.farm).read_text())["proxies"]
        return proxies


@contextmanager
def local_stack(folder: Path, *, farm_size: int = 24, **parameters: str) -> Iterator[LocalStack]:
    """Starts a stack with its farm and the settings of `SECONDS`; `parameters` are parameters of the template."""
    plan = Plan(root=ROOT, folder=folder, farm_size=farm_size, any_ports=True, parameters=parameters, settings=SECONDS)
    with run_stack(plan) as stack:
        clients = Clients(stack.endpoint_url, stack.access_key)
        yield LocalStack(stack, clients, EventRecorder.subscribe(stack.outputs["EventBusName"], clients))


def lower_names(headers: Message) -> dict[str, str]:
    """Headers by lower-case name."""
    return {name.lower(): value for name, value in headers.items()}


def wait_until(poll: Callable[[], _T | None], seconds: float = 90) -> _T:
    """Polls until the result is true, and returns it; raises AssertionError after `seconds`."""
    end = time.monotonic() + seconds
    while True:
        result = poll()
        if result:
            return result
        assert time.monotonic() < end, f"not within {seconds} s"
        time.sleep(0.2)
