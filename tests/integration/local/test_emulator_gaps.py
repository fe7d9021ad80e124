"""The gaps of the emulator that the local stack works around: a new version without one of them fails here."""

from __future__ import annotations

import io
import json
import time
import zipfile
from typing import Any
from uuid import uuid4

import boto3
import pytest
from botocore.exceptions import ClientError
from proxypool.local.emulation import deploy, httpapi

from tests.support.stack import wait_until

pytestmark = pytest.mark.usefixtures("aws_endpoint")

BODY = {
    "openapi": "3.0.1",
    "paths": {"/x": {"get": {"x-amazon-apigateway-integration": {"uri": "arn:aws:lambda:us-east-1:0:function:f"}}}},
}
TABLE = {
    "Type": "AWS::DynamoDB::Table",
    "Properties": {
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
        "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
        "TimeToLiveSpecification": {"AttributeName": "ttl", "Enabled": True},
    },
}


def created(resources: dict[str, Any], **numbers: str) -> dict[str, str]:
    """Creates a stack with number parameters; {logical id: physical id}, and its status as "status"."""
    cloudformation, name = boto3.client("cloudformation"), f"gap-{uuid4().hex[:8]}"
    cloudformation.create_stack(
        StackName=name,
        TemplateBody=json.dumps({"Parameters": {name: {"Type": "Number"} for name in numbers}, "Resources": resources}),
        Parameters=[{"ParameterKey": key, "ParameterValue": value} for key, value in numbers.items()],
    )
    while True:
        status = cloudformation.describe_stacks(StackName=name)["Stacks"][0]["StackStatus"]
        if not status.endswith("IN_PROGRESS"):
            break
        time.sleep(0.05)
    found = cloudformation.describe_stack_resources(StackName=name)["StackResources"]
    return {item["LogicalResourceId"]: item["PhysicalResourceId"] for item in found} | {"status": status}


def routes(api_id: str) -> list[str]:
    return [item["RouteKey"] for item in boto3.client("apigatewayv2").get_routes(ApiId=api_id)["Items"]]


def an_api() -> dict[str, Any]:
    return {
        "Api": {"Type": "AWS::ApiGatewayV2::Api", "Properties": {"Name": "gap", "ProtocolType": "HTTP", "Body": BODY}}
    }


def test_routes_in_an_openapi_body_are_ignored_so_each_becomes_a_resource() -> None:
    original, expanded = an_api(), an_api()
    httpapi.expand_routes(expanded)

    assert routes(created(original)["Api"]) == []
    assert routes(created(expanded)["Api"]) == ["GET /x"]


def test_the_ttl_of_a_table_is_ignored_so_it_is_enabled_afterwards() -> None:
    dynamodb, table = boto3.client("dynamodb"), created({"Table": TABLE})["Table"]

    before = dynamodb.describe_time_to_live(TableName=table)["TimeToLiveDescription"]["TimeToLiveStatus"]
    dynamodb.update_time_to_live(
        TableName=table,
        TimeToLiveSpecification=TABLE["Properties"]["TimeToLiveSpecification"],  # type: ignore[index]
    )
    after = dynamodb.describe_time_to_live(TableName=table)["TimeToLiveDescription"]["TimeToLiveStatus"]

    assert (before, after) == ("DISABLED", "ENABLED")


def test_a_serverless_cache_is_rejected_so_the_template_creates_it_only_without_a_redis_url() -> None:
    cache = {
        "Type": "AWS::ElastiCache::ServerlessCache",
        "Properties": {"Engine": "valkey", "ServerlessCacheName": "c"},
    }

    with pytest.raises(ClientError, match="Unrecognized resource types"):
        created({"Cache": cache})


def test_message_move_tasks_are_missing_so_redrive_sends_each_message() -> None:
    sqs = boto3.client("sqs")

    with pytest.raises(ClientError):
        sqs.start_message_move_task(SourceArn="arn:aws:sqs:us-east-1:000000000000:gap")


def a_mapping_with_a_width() -> dict[str, Any]:
    """A template with a number parameter for a mapping's concurrency; the mapping is disabled, as it stops the poller."""
    mapping = {
        "EventSourceArn": {"Fn::GetAtt": ["Queue", "Arn"]},
        "FunctionName": "gap",
        "Enabled": False,
        "ScalingConfig": {"MaximumConcurrency": {"Ref": "Width"}},
    }
    resources = {
        "Queue": {"Type": "AWS::SQS::Queue", "Properties": {}},
        "Mapping": {"Type": "AWS::Lambda::EventSourceMapping", "Properties": mapping},
    }
    return {"Parameters": {"Width": {"Type": "Number"}}, "Resources": resources}


def width(template: dict[str, Any]) -> Any:
    """The concurrency of the created mapping in the raw response: boto3 converts it to a number."""
    stack = created(template["Resources"], Width="7")
    lambda_, raw = boto3.client("lambda"), []
    lambda_.meta.events.register("after-call", lambda http_response, **_: raw.append(http_response.content))
    lambda_.get_event_source_mapping(UUID=stack["Mapping"])
    lambda_.delete_event_source_mapping(UUID=stack["Mapping"])
    return json.loads(raw[0])["ScalingConfig"]["MaximumConcurrency"]


def test_a_number_parameter_reaches_a_mapping_as_text_so_it_is_inlined() -> None:
    original, expanded = a_mapping_with_a_width(), a_mapping_with_a_width()
    deploy._inline_numbers(expanded, {"Width": "7"})

    assert width(original) == "7"
    assert width(expanded) == 7


def test_a_batch_of_messages_has_its_configured_size_within_the_batching_window() -> None:
    """Unpatched, the emulator sends at most ten messages per batch and ignores the window."""
    awslambda, sqs, name = boto3.client("lambda"), boto3.client("sqs"), f"gap-{uuid4().hex[:8]}"
    queue = sqs.create_queue(QueueName=name)["QueueUrl"]
    awslambda.create_function(
        FunctionName=name, Runtime="python3.13", Handler="app.handler", Role="arn:aws:iam::000000000000:role/gap",
        Code={"ZipFile": zipped("app.py", "def handler(event, _): print('records', len(event['Records']))")},
    )  # fmt: skip
    awslambda.create_event_source_mapping(
        FunctionName=name, BatchSize=20, MaximumBatchingWindowInSeconds=2,
        EventSourceArn=sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"],
    )  # fmt: skip

    for first in (0, 10, 20):
        entries = [{"Id": str(first + number), "MessageBody": "x"} for number in range(5 if first == 20 else 10)]
        sqs.send_message_batch(QueueUrl=queue, Entries=entries)

    assert wait_until(lambda: sum(sizes := batch_sizes(name)) == 25 and sizes) == [20, 5]


def zipped(name: str, text: str) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr(name, text)
    return data.getvalue()


def batch_sizes(function: str) -> list[int]:
    logs, group = boto3.client("logs"), f"/aws/lambda/{function}"
    try:
        streams = logs.describe_log_streams(logGroupName=group)["logStreams"]
    except ClientError:  # the function has not run yet
        return []
    texts = [
        event["message"]
        for stream in streams
        for event in logs.get_log_events(logGroupName=group, logStreamName=stream["logStreamName"])["events"]
    ]
    return sorted((int(text.split()[1]) for text in texts if text.startswith("records ")), reverse=True)
