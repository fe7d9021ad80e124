"""The permissions in the template by function, and those that a call of AWS requires, as (resource, action)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from proxypool.config.settings import Settings
from proxypool.local.emulation import template

from tests.support.servers import ROOT

Permission = tuple[str, str]
_STATEMENTS = {
    "INSERT": "PartiQLInsert",
    "UPDATE": "PartiQLUpdate",
    "DELETE": "PartiQLDelete",
    "SELECT": "PartiQLSelect",
}
_ACTIONS = {  # if the action and the operation have different names
    ("sqs", "SendMessageBatch"): "SendMessage",
    ("sqs", "DeleteMessageBatch"): "DeleteMessage",
    ("lambda", "Invoke"): "InvokeFunction",
}


@cache
def functions() -> dict[str, dict[str, Any]]:
    """The properties of each function, by logical id."""
    resources = template.load(ROOT / "template.yaml")["Resources"]
    return {name: item["Properties"] for name, item in resources.items() if item["Type"] == "AWS::Serverless::Function"}


def variables(function: str) -> set[str]:
    """The environment variables of a function."""
    shared = template.load(ROOT / "template.yaml")["Globals"]["Function"]["Environment"]["Variables"]
    return set(shared) | set(functions()[function].get("Environment", {}).get("Variables", {}))


def allowed(function: str) -> set[Permission]:
    """The permissions of a function, e.g. ("ProxiesTable/index/due", "dynamodb:Query"), as if all conditions were true."""
    found: set[Permission] = set()
    for policy in [*functions()[function].get("Policies", []), *_separate_policies(functions()[function].get("Role"))]:
        for statement in _if_true(policy)["Statement"]:
            resources, actions = _if_true(statement)["Resource"], _if_true(statement)["Action"]
            for resource in resources if isinstance(resources, list) else [resources]:
                for action in actions if isinstance(actions, list) else [actions]:
                    found.add((_logical(resource), action))
    return found


def _separate_policies(role: Any) -> list[Any]:
    """The policies of a function's role that are resources of their own."""
    if role is None:
        return []
    resources = template.load(ROOT / "template.yaml")["Resources"].values()
    policies = [item["Properties"] for item in resources if item["Type"] == "AWS::IAM::Policy"]
    return [item["PolicyDocument"] for item in policies if {"Ref": role["Fn::GetAtt"][0]} in item["Roles"]]


def needed(settings: Settings, service: str, operation: str, request: dict[str, Any]) -> Iterator[Permission]:
    """The permissions that one call of AWS requires, with the template's logical id as resource."""
    names = {
        settings.sources_table: "SourcesTable", settings.proxies_table: "ProxiesTable",
        settings.checks_table: "ChecksTable", settings.leases_table: "LeasesTable", settings.state_table: "StateTable",
        settings.scrape_queue_url: "ScrapeQueue", settings.validate_queue_url: "ValidateQueue",
        settings.jobs_table: "JobsTable", settings.fetch_queue_url: "FetchQueue", settings.event_bus: "EventBus", settings.judge_secret_arn: "JudgeSecret",
    }  # fmt: skip
    if operation == "BatchExecuteStatement":
        for statement in request["Statements"]:
            verb, *words = statement["Statement"].split()
            table = next(word.strip('"') for word in words if word.startswith('"'))
            yield names[table], f"dynamodb:{_STATEMENTS[verb]}"
        return
    action = f"{service}:{_ACTIONS.get((service, operation), operation)}"
    if service == "s3":
        yield f"BodiesBucket/{request['Key'].partition('/')[0]}/*", action
        return
    tables = list(request.get("RequestItems", [])) or [_resource(request)]
    for table in tables:
        index = f"/index/{request['IndexName']}" if "IndexName" in request else ""
        yield names[table] + index, action


def _resource(request: dict[str, Any]) -> str:
    if "Entries" in request and "QueueUrl" not in request:
        return str(request["Entries"][0]["EventBusName"])
    return str(next(request[name] for name in ("TableName", "QueueUrl", "SecretId", "Bucket") if name in request))


def _if_true(value: Any) -> Any:
    """The value, or the branch of an Fn::If whose condition is true."""
    return value["Fn::If"][1] if isinstance(value, dict) and "Fn::If" in value else value


def _logical(resource: Any) -> str:
    if "Ref" in resource:
        return str(resource["Ref"])
    if "Fn::GetAtt" in resource:
        name, attribute = resource["Fn::GetAtt"]
        return str(name) if attribute == "Arn" else f"{name}.{attribute}"
    return str(resource["Fn::Sub"]).replace("${", "").replace(".Arn}", "").replace("}", "")
