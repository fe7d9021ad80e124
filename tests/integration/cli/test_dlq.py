"""Dead letters from the command line: of the local stack, and of a deployed one by its name, on the emulated AWS."""

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
class Stack:
    """A stack of queues and its outputs."""

    name: str
    outputs: dict[str, str]

    def letter(self, queue: str, body: str, reason: str = "") -> str:
        """Puts a message into a dead-letter queue, with what its last try said."""
        sent = boto3.client("sqs").send_message(QueueUrl=self.outputs[f"{queue}DeadLetterQueueUrl"], MessageBody=body)
        if reason:
            StateTable(self.outputs["StateTable"]).put(reason_name(sent["MessageId"]), {"reason": reason})
        return str(sent["MessageId"])

    def waiting(self, queue: str) -> list[str]:
        """The bodies in a queue, taken out."""
        url, sqs = self.outputs[f"{queue}QueueUrl"], boto3.client("sqs")
        found: list[str] = []
        while page := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", []):
            found += [message["Body"] for message in page]
        return found


@pytest.fixture(autouse=True)
def _own_environment() -> Iterator[None]:
    """What a command sets for its process ends with the test."""
    before = dict(os.environ)
    aws.client.cache_clear()
    yield
    os.environ.clear()
    os.environ.update(before)
    aws.client.cache_clear()


@pytest.fixture
def stack(aws_endpoint: str) -> Stack:
    """A deployed one: made by CloudFormation, known by its outputs."""
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
    """What a command answered."""
    return CliRunner().invoke(app, ["dlq", *words])


def test_dead_letters_of_a_deployed_stack_are_listed_with_their_reasons_and_stay(stack: Stack) -> None:
    """Input 74: what failed for good, and why."""
    first, second = stack.letter("Scrape", "not JSON", "not JSON"), stack.letter("Validate", '{"v":1}')
    third = stack.letter("Fetch", '{"v":1}', "TimeoutError")

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
    """I13: nothing is lost on the way, nothing stays behind."""
    for number in range(12):
        stack.letter("Validate", f"v{number}")
    stack.letter("Scrape", "s")
    stack.letter("Fetch", "f")

    found = run("redrive", "--stack", stack.name, "--yes", "--json")

    assert json.loads(found.stdout) == {"redriven": 14}
    assert sorted(stack.waiting("Validate")) == sorted(f"v{number}" for number in range(12))
    assert stack.waiting("Scrape") == ["s"]
    assert stack.waiting("Fetch") == ["f"]
    for queue in ("Scrape", "Validate", "Fetch"):
        assert stack.waiting(f"{queue}DeadLetter") == []


def test_a_redrive_of_a_deployed_stack_asks_first(stack: Stack) -> None:
    """Where nobody can answer, nothing is done."""
    stack.letter("Scrape", "s")

    found = run("redrive", "--stack", stack.name)

    assert found.exit_code == Exit.USAGE
    assert "--yes" in found.stderr
    assert stack.waiting("ScrapeDeadLetter") == ["s"]


def test_the_local_stack_of_a_folder_above_is_found(
    stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, aws_endpoint: str
) -> None:
    """Its own endpoint and keys are used, whatever the environment says."""
    file = tmp_path / ".local" / "stack.json"
    file.parent.mkdir(mode=0o700)
    found = {"endpoint_url": aws_endpoint, "access_key": os.environ["AWS_ACCESS_KEY_ID"], "outputs": stack.outputs}
    write_private(file, json.dumps({"api_url": "http://127.0.0.1:1", **found}))
    (tmp_path / "deep" / "down").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "deep" / "down")
    stack.letter("Scrape", "s")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDOTHER")
    aws.client.cache_clear()

    listed, sent = run("list"), run("redrive", "--limit", "5")

    assert listed.stdout.split("\t")[0] == "scrape"
    assert sent.stdout == "redriven\t1\n"


def test_a_stack_that_is_not_there_and_one_that_is_no_pool(stack: Stack) -> None:
    missing = run("list", "--stack", "no-such-stack")
    boto3.client("cloudformation").create_stack(
        StackName=f"{stack.name}x", TemplateBody=json.dumps({"Resources": {"Queue": {"Type": "AWS::SQS::Queue"}}})
    )
    other = run("list", "--stack", f"{stack.name}x", "--json")

    assert missing.exit_code == Exit.EMPTY
    assert "no-such-stack" in missing.stderr
    assert other.exit_code == Exit.FAILED
    assert "no output" in json.loads(other.stderr)["title"]


def refused(code: str) -> ClientError:
    """What AWS says."""
    return ClientError({"Error": {"Code": code, "Message": "said\nso"}}, "DescribeStacks")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (NoCredentialsError(), Exit.CREDENTIALS),
        (refused("ExpiredToken"), Exit.CREDENTIALS),
        (refused("AccessDenied"), Exit.CREDENTIALS),
        (NoRegionError(), Exit.USAGE),
        (EndpointConnectionError(endpoint_url="https://x"), Exit.UNREACHABLE),
        (refused("Throttling"), Exit.FAILED),
    ],
    ids=["no credentials", "expired", "denied", "no region", "no answer", "throttled"],
)
def test_what_aws_refuses_is_one_line_and_a_code_of_its_own(
    aws_endpoint: str, monkeypatch: pytest.MonkeyPatch, error: Exception, code: Exit
) -> None:
    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr(BaseClient, "_make_api_call", refuse)

    found = run("list", "--stack", "pool")

    assert (found.exit_code, found.stdout) == (code, "")
    assert len(found.stderr.splitlines()) == 1
