"""What the template allows each function, and what a call of AWS needs: both as (resource, action)."""

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
_ACTIONS = {  # where the action is not called as the operation
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
    """What a function's policy allows, e.g. ("ProxiesTable/index/due", "dynamodb:Query"); conditions are taken as met."""
    found: set[Permission] = set()
    for policy in [*functions()[function].get("Policies", []), *_attached(functions()[function].get("Role"))]:
        for statement in _met(policy)["Statement"]:
            resources, actions = _met(statement)["Resource"], _met(statement)["Action"]
            for resource in resources if isinstance(resources, list) else [resources]:
                for action in actions if isinstance(actions, list) else [actions]:
                    found.add((_logical(resource), action))
    return found


def _attached(role: Any) -> list[Any]:
    """The policies that stand apart from a function and name its role."""
    if role is None:
        return []
    resources = template.load(ROOT / "template.yaml")["Resources"].values()
    policies = [item["Properties"] for item in resources if item["Type"] == "AWS::IAM::Policy"]
    return [item["PolicyDocument"] for item in policies if {"Ref": role["Fn::GetAtt"][0]} in item["Roles"]]


def needed(settings: Settings, service: str, operation: str, asked: dict[str, Any]) -> Iterator[Permission]:
    """What one call of AWS needs, its resource as the template's logical id."""
    names = {
        settings.sources_table: "SourcesTable", settings.proxies_table: "ProxiesTable",
        settings.checks_table: "ChecksTable", settings.leases_table: "LeasesTable", settings.state_table: "StateTable",
        settings.scrape_queue_url: "ScrapeQueue", settings.validate_queue_url: "ValidateQueue",
        settings.jobs_table: "JobsTable", settings.fetch_queue_url: "FetchQueue", settings.event_bus: "EventBus", settings.judge_secret_arn: "JudgeSecret",
    }  # fmt: skip
    if operation == "BatchExecuteStatement":
        for statement in asked["Statements"]:
            verb, *words = statement["Statement"].split()
            table = next(word.strip('"') for word in words if word.startswith('"'))
            yield names[table], f"dynamodb:{_STATEMENTS[verb]}"
        return
    action = f"{service}:{_ACTIONS.get((service, operation), operation)}"
    if service == "s3":
        yield f"BodiesBucket/{asked['Key'].partition('/')[0]}/*", action
        return
    tables = list(asked.get("RequestItems", [])) or [_place(asked)]
    for table in tables:
        index = f"/index/{asked['IndexName']}" if "IndexName" in asked else ""
        yield names[table] + index, action


def _place(asked: dict[str, Any]) -> str:
    if "Entries" in asked and "QueueUrl" not in asked:
        return str(asked["Entries"][0]["EventBusName"])
    return str(next(asked[name] for name in ("TableName", "QueueUrl", "SecretId", "Bucket") if name in asked))


def _met(value: Any) -> Any:
    """What stands where its condition holds."""
    return value["Fn::If"][1] if isinstance(value, dict) and "Fn::If" in value else value


def _logical(resource: Any) -> str:
    if "Ref" in resource:
        return str(resource["Ref"])
    if "Fn::GetAtt" in resource:
        name, attribute = resource["Fn::GetAtt"]
        return str(name) if attribute == "Arn" else f"{name}.{attribute}"
    return str(resource["Fn::Sub"]).replace("${", "").replace(".Arn}", "").replace("}", "")
