"""`proxypool dlq` with the local stack and with a deployed one, on the emulated AWS."""

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
from proxypool.aws.state import StateTable
from proxypool.cli.app import app
from proxypool.local.state_folder import write_private
from proxypool.tasks.retry import reason_name
from proxypool_client.cli.output import Exit
from typer.testing import CliRunner

from tests.support.servers import create_tables

QUEUES = ("Scrape", "ScrapeDeadLetter", "Validate", "ValidateDeadLetter", "Fetch", "FetchDeadLetter")


@dataclass
class QueueStack:
    """The queues of a stack, and its outputs."""

    name: str
    outputs: dict[str, str]

    def send_dead_letter(self, queue: str, body: str, reason: str = "") -> str:
        """Sends a message to a dead-letter queue, with the reason of its last failure."""
        sent = boto3.client("sqs").send_message(QueueUrl=self.outputs[f"{queue}DeadLetterQueueUrl"], MessageBody=body)
        if reason:
            StateTable(self.outputs["StateTable"]).put(reason_name(sent["MessageId"]), {"reason": reason})
        return str(sent["MessageId"])

    def receive_all(self, queue: str) -> list[str]:
        """Receives all messages of a queue; returns their bodies."""
        url, sqs = self.outputs[f"{queue}QueueUrl"], boto3.client("sqs")
        bodies: list[str] = []
        while page := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", []):
            bodies += [message["Body"] for message in page]
        return bodies


@pytest.fixture(autouse=True)
def _own_environment() -> Iterator[None]:
    """Restores the environment variables that a command sets."""
    before = dict(os.environ)
    aws.client.cache_clear()
    yield
    os.environ.clear()
    os.environ.update(before)
    aws.client.cache_clear()


@pytest.fixture
def stack(aws_endpoint: str) -> QueueStack:
    """A stack deployed by CloudFormation."""
    name = f"d{uuid4().hex[:8]}"
    state = create_tables(f"{name}-")["StateTable"]
    resources = {f"{queue}Queue": {"Type": "AWS::SQS::Queue"} for queue in QUEUES}
    outputs: dict[str, Any] = {f"{queue}Url": {"Value": {"Ref": queue}} for queue in resources}
    body = {"Resources": resources, "Outputs": outputs | {"StateTable": {"Value": state}}}
    formation = boto3.client("cloudformation")
    formation.create_stack(StackName=name, TemplateBody=json.dumps(body))
    end = time.monotonic() + 90
    while (description := formation.describe_stacks(StackName=name)["Stacks"][0])["StackStatus"] != "CREATE_COMPLETE":
        assert time.monotonic() < end
        time.sleep(0.05)
    return QueueStack(name, {output["OutputKey"]: output["OutputValue"] for output in description["Outputs"]})


def run(*words: str) -> Any:
    """Runs a command."""
    return CliRunner().invoke(app, ["dlq", *words])


def test_dead_letters_of_a_deployed_stack_are_listed_with_their_reasons(stack: QueueStack) -> None:
    """Input 74: listing does not remove them."""
    first, second = (
        stack.send_dead_letter("Scrape", "not JSON", "not JSON"),
        stack.send_dead_letter("Validate", '{"v":1}'),
    )
    third = stack.send_dead_letter("Fetch", '{"v":1}', "TimeoutError")

    for _ in range(2):
        messages = json.loads(run("list", "--stack", stack.name, "--json").stdout)["messages"]
        assert messages == [
            {"queue": "scrape", "message_id": first, "body": "not JSON", "reason": "not JSON"},
            {"queue": "validate", "message_id": second, "body": '{"v":1}', "reason": ""},
            {"queue": "fetch", "message_id": third, "body": '{"v":1}', "reason": "TimeoutError"},
        ]
    assert run("list", "--stack", stack.name, "--region", "us-east-1").stdout.splitlines()[0] == (
        f"scrape\t{first}\tnot JSON\tnot JSON"
    )


def test_a_redrive_moves_every_message_back_to_its_queue(stack: QueueStack) -> None:
    """I13: no message is lost or left in a dead-letter queue."""
    for number in range(12):
        stack.send_dead_letter("Validate", f"v{number}")
    stack.send_dead_letter("Scrape", "s")
    stack.send_dead_letter("Fetch", "f")

    result = run("redrive", "--stack", stack.name, "--yes", "--json")

    assert json.loads(result.stdout) == {"redriven": 14}
    assert sorted(stack.receive_all("Validate")) == sorted(f"v{number}" for number in range(12))
    assert stack.receive_all("Scrape") == ["s"]
    assert stack.receive_all("Fetch") == ["f"]
    for queue in ("Scrape", "Validate", "Fetch"):
        assert stack.receive_all(f"{queue}DeadLetter") == []


def test_a_redrive_of_a_deployed_stack_requires_confirmation(stack: QueueStack) -> None:
    """Without a terminal and --yes nothing is done."""
    stack.send_dead_letter("Scrape", "s")

    result = run("redrive", "--stack", stack.name)

    assert result.exit_code == Exit.USAGE
    assert "--yes" in result.stderr
    assert stack.receive_all("ScrapeDeadLetter") == ["s"]


def test_the_local_stack_of_a_parent_folder_is_used(
    stack: QueueStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, aws_endpoint: str
) -> None:
    """Its endpoint and keys take precedence over the environment."""
    file = tmp_path / ".local" / "stack.json"
    file.parent.mkdir(mode=0o700)
    values = {"endpoint_url": aws_endpoint, "access_key": os.environ["AWS_ACCESS_KEY_ID"], "outputs": stack.outputs}
    write_private(file, json.dumps({"api_url": "http://127.0.0.1:1", **values}))
    (tmp_path / "deep" / "down").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "deep" / "down")
    stack.send_dead_letter("Scrape", "s")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDOTHER")
    aws.client.cache_clear()

    listed, sent = run("list"), run("redrive", "--limit", "5")

    assert listed.stdout.split("\t")[0] == "scrape"
    assert sent.stdout == "redriven\t1\n"


def test_a_missing_stack_and_one_of_another_kind_are_errors(stack: QueueStack) -> None:
    missing = run("list", "--stack", "no-such-stack")
    boto3.client("cloudformation").create_stack(
        StackName=f"{stack.name}x", TemplateBody=json.dumps({"Resources": {"Queue": {"Type": "AWS::SQS::Queue"}}})
    )
    other = run("list", "--stack", f"{stack.name}x", "--json")

    assert missing.exit_code == Exit.EMPTY
    assert "no-such-stack" in missing.stderr
    assert other.exit_code == Exit.FAILED
    assert "no output" in json.loads(other.stderr)["title"]


def client_error(code: str) -> ClientError:
    """An error response of AWS."""
    return ClientError({"Error": {"Code": code, "Message": "two\nlines"}}, "DescribeStacks")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (NoCredentialsError(), Exit.CREDENTIALS),
        (client_error("ExpiredToken"), Exit.CREDENTIALS),
        (client_error("AccessDenied"), Exit.CREDENTIALS),
        (NoRegionError(), Exit.USAGE),
        (EndpointConnectionError(endpoint_url="https://x"), Exit.UNREACHABLE),
        (client_error("Throttling"), Exit.FAILED),
    ],
    ids=["no credentials", "expired", "denied", "no region", "no response", "throttled"],
)
def test_an_aws_error_is_one_line_with_its_exit_code(
    aws_endpoint: str, monkeypatch: pytest.MonkeyPatch, error: Exception, code: Exit
) -> None:
    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr(BaseClient, "_make_api_call", refuse)

    result = run("list", "--stack", "pool")

    assert (result.exit_code, result.stdout) == (code, "")
    assert len(result.stderr.splitlines()) == 1
