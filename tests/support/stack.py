"""A whole stack for end-to-end tests: template.yaml on free ports and in a folder of its own, with waits of seconds."""

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
from proxypool.local.stack import Plan, Running, running

from tests.support.bus import Ear

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
    """A running stack and the ways into it that tests need."""

    at: Running
    clients: Clients
    ear: Ear
    invoked: Counter[str] = field(default_factory=Counter)  # how often `invoke` called each function

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """One call of the HTTP API: (status, JSON)."""
        return self.answer(method, path, body, **headers)[:2]

    def answer(
        self, method: str, path: str, body: Any = None, *, at: str = "", **headers: str
    ) -> tuple[int, Any, dict[str, str]]:
        """One call of the HTTP API, or of the one that is `at` another address: (status, JSON, headers)."""
        data = None if body is None else json.dumps(body).encode()
        named = {"content-type": "application/json"} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        request = urllib.request.Request(f"{at or self.at.api_url}{path}", data=data, method=method, headers=named)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, json.loads(answer.read() or b"null"), lowered(answer.headers)
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read() or b"null"), lowered(error.headers)

    def invoke(self, function: str, event: Any = None) -> Any:
        """Invokes a function by its logical name, e.g. "ExpireLeases"; raises AssertionError when it failed."""
        name = self.at.outputs[f"{function}Function"]
        self.invoked[function] += 1
        answer = self.clients("lambda").invoke(FunctionName=name, Payload=json.dumps(event or {}).encode())
        payload = json.loads(answer["Payload"].read() or b"null")
        assert "FunctionError" not in answer, payload
        return payload

    def log(self, function: str) -> list[dict[str, Any]]:
        """The structured lines that a function logged."""
        name = self.at.outputs[f"{function}Function"]
        group = self.clients("lambda").get_function_configuration(FunctionName=name)["LoggingConfig"]["LogGroup"]
        logs, lines = self.clients("logs"), []
        for stream in logs.describe_log_streams(logGroupName=group)["logStreams"]:
            page = logs.get_log_events(logGroupName=group, logStreamName=stream["logStreamName"], startFromHead=True)
            lines += [event["message"] for event in page["events"]]
        read = [json.loads(line) for line in lines if line.startswith("{")]
        return sorted(read, key=lambda line: str(line.get("timestamp", "")))  # each worker writes a stream of its own

    def messages(self, queue: str) -> list[dict[str, Any]]:
        """Up to ten messages of a queue by its output, e.g. "ValidateDeadLetterQueue"; they stay hidden for a second."""
        found = self.clients("sqs").receive_message(
            QueueUrl=self.at.outputs[f"{queue}Url"], MaxNumberOfMessages=10, VisibilityTimeout=1
        )
        return list(found.get("Messages", []))

    def command(self, *arguments: str) -> Any:
        """What `proxypool … --json` prints in the stack's folder."""
        run = [sys.executable, "-c", "from proxypool_client.cli.app import main; main()", *arguments, "--json"]
        done = subprocess.run(run, cwd=self.folder.parent, capture_output=True, text=True, timeout=150, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    @contextmanager
    def silent(self, child: str) -> Iterator[None]:
        """Within the block a child of the stack ("valkey", "farm") takes connections and answers nothing; then it goes on."""
        os.kill(self.at.children[child], signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.at.children[child], signal.SIGCONT)

    def proxies(self) -> list[dict[str, Any]]:
        """All proxies, as the API lists them."""
        found: list[dict[str, Any]] = self.call("GET", "/proxies")[1]["proxies"]
        return found

    def statuses(self) -> Counter[str]:
        """How many proxies have each status."""
        return Counter(proxy["status"] for proxy in self.proxies())

    @property
    def tokens_url(self) -> str:
        """The address of the API for callers with a token (JWT)."""
        return f"{self.at.api_url.rpartition('/')[0]}/{self.at.outputs['TokensApiId']}"

    @property
    def folder(self) -> Path:
        """The stack's state folder."""
        return Path(str(self.at.farm)).parent

    def farm(self) -> list[dict[str, Any]]:
        """The truth about each proxy of the farm."""
        assert self.at.farm is not None
        proxies: list[dict[str, Any]] = json.loads(Path(self.at.farm).read_text())["proxies"]
        return proxies


@contextmanager
def local_stack(folder: Path, *, farm_size: int = 24, **parameters: str) -> Iterator[LocalStack]:
    """Starts a stack with its farm and the settings of `SECONDS`; `parameters` are parameters of the template."""
    plan = Plan(root=ROOT, folder=folder, farm_size=farm_size, any_ports=True, parameters=parameters, settings=SECONDS)
    with running(plan) as found:
        clients = Clients(found.endpoint_url, found.access_key)
        yield LocalStack(found, clients, Ear.on(found.outputs["EventBusName"], clients))


def lowered(headers: Message) -> dict[str, str]:
    """Headers by their names in lower case."""
    return {name.lower(): value for name, value in headers.items()}


def until(ask: Callable[[], _T | None], seconds: float = 90) -> _T:
    """What `ask` returns as soon as that is true; AssertionError after `seconds`."""
    end = time.monotonic() + seconds
    while True:
        found = ask()
        if found:
            return found
        assert time.monotonic() < end, f"not within {seconds} s"
        time.sleep(0.2)
