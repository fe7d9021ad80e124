"""Dead letters from the command line, of the local stack and of a deployed one, on the emulated AWS."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import boto3
import pytest
from botocore.client import BaseClient
from botocore.exceptions import ClientError, EndpointConnectionError, NoCredentialsError, NoRegionError
from proxypool import aws
from proxypool.aws.state import State
from proxypool.cli.app import app
from proxypool.local.state_folder import write_private
from proxypool.tasks.retry import reason_name
from proxypool_client.cli.output import Exit
from typer.testing import CliRunner

from tests.support.servers import create_tables

QUEUES = ("Scrape", "ScrapeDeadLetter", "Validate", "ValidateDeadLetter", "Fetch", "FetchDeadLetter")


@dataclass
class Stack:
    """A stack with queues, and its outputs."""

    name: str
    outputs: dict[str, str]

    def add(self, queue: str, body: str, reason: str = "") -> str:
        """Sends a message to a dead-letter queue, with the reason of its last attempt."""
        sent = boto3.client("sqs").send_message(QueueUrl=self.outputs[f"{queue}DeadLetterQueueUrl"], MessageBody=body)
        if reason:
            State(self.outputs["StateTable"]).put(reason_name(sent["MessageId"]), {"reason": reason})
        return str(sent["MessageId"])

    def receive(self, queue: str) -> list[str]:
        """The bodies of the messages in a queue."""
        url, sqs = self.outputs[f"{queue}QueueUrl"], boto3.client("sqs")
        found: list[str] = []
        while page := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", []):
            found += [message["Body"] for message in page]
        return found


@pytest.fixture(autouse=True)
def _own_environment() -> Iterator[None]:
    """Restores the environment, which commands change."""
    before = dict(os.environ)
    aws.client.cache_clear()
    yield
    os.environ.clear()
    os.environ.update(before)
    aws.client.cache_clear()


@pytest.fixture
def stack(aws_endpoint: str) -> Stack:
    """A deployed stack."""
    name = f"d{uuid4().hex[:8]}"
    state = create_tables(f"{name}-")["StateTable"]
    resources = {f"{queue}Queue": {"Type": "AWS::SQS::Queue"} for queue in QUEUES}
    outputs: dict[str, Any] = {f"{queue}Url": {"Value": {"Ref": queue}} for queue in resources}
    body = {"Resources": resources, "Outputs": outputs | {"StateTable": {"Value": state}}}
    formation = boto3.client("cloudformation")
    formation.create_stack(StackName=name, TemplateBody=json.dumps(body))
    end = time.monotonic() + 90
    while (found := formation.describe_stacks(StackName=name)["Stacks"][0])["StackStatus"] != "CREATE_COMPLETE":
        assert time.monotonic() < end
        time.sleep(0.05)
    return Stack(name, {one["OutputKey"]: one["OutputValue"] for one in found["Outputs"]})


def run(*words: str) -> Any:
    """The result of a command."""
    return CliRunner().invoke(app, ["dlq", *words])


def test_dead_letters_are_listed_with_their_reasons_and_stay_in_the_queue(stack: Stack) -> None:
    """Input 74: messages that failed permanently, with the reason."""
    first, second = stack.add("Scrape", "not JSON", "not JSON"), stack.add("Validate", '{"v":1}')
    third = stack.add("Fetch", '{"v":1}', "TimeoutError")

    for _ in range(2):
        found = json.loads(run("list", "--stack", stack.name, "--json").stdout)["messages"]
        assert found == [
            {"queue": "scrape", "message_id": first, "body": "not JSON", "reason": "not JSON"},
            {"queue": "validate", "message_id": second, "body": '{"v":1}', "reason": ""},
            {"queue": "fetch", "message_id": third, "body": '{"v":1}', "reason": "TimeoutError"},
        ]
    assert run("list", "--stack", stack.name, "--region", "us-east-1").stdout.splitlines()[0] == (
        f"scrape\t{first}\tnot JSON\tnot JSON"
    )


def test_a_redrive_sends_every_message_back_to_its_queue(stack: Stack) -> None:
    """I13: no message is lost, and none is left."""
    for number in range(12):
        stack.add("Validate", f"v{number}")
    stack.add("Scrape", "s")
    stack.add("Fetch", "f")

    found = run("redrive", "--stack", stack.name, "--yes", "--json")

    assert json.loads(found.stdout) == {"redriven": 14}
    assert sorted(stack.receive("Validate")) == sorted(f"v{number}" for number in range(12))
    assert stack.receive("Scrape") == ["s"]
    assert stack.receive("Fetch") == ["f"]
    for queue in ("Scrape", "Validate", "Fetch"):
        assert stack.receive(f"{queue}DeadLetter") == []


def test_a_redrive_of_a_deployed_stack_must_be_confirmed(stack: Stack) -> None:
    """Without a terminal it does nothing."""
    stack.add("Scrape", "s")

    found = run("redrive", "--stack", stack.name)

    assert found.exit_code == Exit.USAGE
    assert "--yes" in found.stderr
    assert stack.receive("ScrapeDeadLetter") == ["s"]


def test_the_local_stack_of_a_parent_folder_is_found(
    stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, aws_endpoint: str
) -> None:
    """Its endpoint and access key are used instead of those in the environment."""
    file = tmp_path / ".local" / "stack.json"
    file.parent.mkdir(mode=0o700)
    found = {"endpoint_url": aws_endpoint, "access_key": os.environ["AWS_ACCESS_KEY_ID"], "outputs": stack.outputs}
    write_private(file, json.dumps({"api_url": "http://127.0.0.1:1", **found}))
    (tmp_path / "deep" / "down").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "deep" / "down")
    stack.add("Scrape", "s")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDOTHER")
    aws.client.cache_clear()

    listed, sent = run("list"), run("redrive", "--limit", "5")

    assert listed.stdout.split("\t")[0] == "scrape"
    assert sent.stdout == "redriven\t1\n"


def test_a_missing_stack_and_one_that_is_not_a_proxy_pool_are_errors(stack: Stack) -> None:
    missing = run("list", "--stack", "no-such-stack")
    boto3.client("cloudformation").create_stack(
        StackName=f"{stack.name}x", TemplateBody=json.dumps({"Resources": {"Queue": {"Type": "AWS::SQS::Queue"}}})
    )
    other = run("list", "--stack", f"{stack.name}x", "--json")

    assert missing.exit_code == Exit.EMPTY
    assert "no-such-stack" in missing.stderr
    assert other.exit_code == Exit.FAILED
    assert "no output" in json.loads(other.stderr)["title"]


def aws_error(code: str) -> ClientError:
    """An error response of AWS."""
    return ClientError({"Error": {"Code": code, "Message": "line 1\nline 2"}}, "DescribeStacks")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (NoCredentialsError(), Exit.CREDENTIALS),
        (aws_error("ExpiredToken"), Exit.CREDENTIALS),
        (aws_error("AccessDenied"), Exit.CREDENTIALS),
        (NoRegionError(), Exit.USAGE),
        (EndpointConnectionError(endpoint_url="https://x"), Exit.UNREACHABLE),
        (aws_error("Throttling"), Exit.FAILED),
    ],
    ids=["no credentials", "expired", "denied", "no region", "no answer", "throttled"],
)
def test_an_error_of_aws_is_one_line_and_an_exit_code(
    aws_endpoint: str, monkeypatch: pytest.MonkeyPatch, error: Exception, code: Exit
) -> None:
    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr(BaseClient, "_make_api_call", refuse)

    found = run("list", "--stack", "pool")

    assert (found.exit_code, found.stdout) == (code, "")
    assert len(found.stderr.splitlines()) == 1
