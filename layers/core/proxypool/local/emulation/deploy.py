"""Deploys template.yaml to the emulator: package, translate, work around gaps of the emulator, create or update the stack.

The template is the one that `sam deploy` deploys to AWS; tests/integration/local has a test for each gap.
"""

from __future__ import annotations

import hashlib
import io
import json
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from proxypool.local.emulation import httpapi, template
from proxypool.local.emulation.access import REGION, STACK_NAME
from proxypool.local.emulation.emulator import Clients
from proxypool.local.process import LocalStackError

ARTIFACTS = "proxypool-artifacts"
DEPLOY_SECONDS = 60
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same content gives the same archive


def deploy(
    path: Path, clients: Clients, parameters: Mapping[str, str], *, stack_name: str = STACK_NAME
) -> dict[str, str]:
    """Deploys the template with these parameters (unknown ones are ignored); returns its outputs.

    Raises LocalStackError with the first failed resource.
    """
    body = template.load(path)
    known = {name: value for name, value in parameters.items() if name in body.get("Parameters", {})}
    _package(body, path.parent, clients("s3"))
    translated = _translate(body, known)
    httpapi.expand_routes(translated["Resources"])
    _inline_numbers(translated, known)
    url = _upload_template(clients("s3"), translated)
    outputs = _apply(clients("cloudformation"), stack_name, url, known)
    _enable_ttl(clients, stack_name, translated["Resources"])
    return outputs


def _package(body: dict[str, Any], root: Path, s3: Any) -> None:
    s3.create_bucket(Bucket=ARTIFACTS)
    for resource in body["Resources"].values():
        properties = resource.get("Properties", {})
        if resource["Type"] == "AWS::Serverless::Function":
            code = properties.get("CodeUri", body.get("Globals", {}).get("Function", {}).get("CodeUri"))
            properties["CodeUri"] = _upload(s3, archive(root / code), "zip")
        elif resource["Type"] == "AWS::Serverless::LayerVersion":
            properties["ContentUri"] = _upload(s3, layer(root / properties["ContentUri"]), "zip")
            resource.pop("Metadata", None)
        elif resource["Type"] == "AWS::CloudFormation::Stack":
            properties["TemplateURL"] = _upload_template(s3, template.load(root / properties["TemplateURL"]))


def archive(folder: Path, prefix: str = "") -> bytes:
    """A folder as a zip, without compiled files."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archived:
        _add(archived, folder, prefix)
    return data.getvalue()


def layer(folder: Path) -> bytes:
    """The Python packages of a folder as a layer, without third-party packages: those of the emulator's environment are used."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archived:
        archived.writestr(zipfile.ZipInfo("python/.layer", _EPOCH), folder.name)
        for package in sorted(folder.glob("*/__init__.py")):
            _add(archived, package.parent, f"python/{package.parent.name}/")
    return data.getvalue()


def _add(archived: zipfile.ZipFile, folder: Path, prefix: str) -> None:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            entry = zipfile.ZipInfo(prefix + path.relative_to(folder).as_posix(), _EPOCH)
            entry.external_attr = 0o644 << 16
            archived.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED, 1)


def _upload(s3: Any, content: bytes, ending: str) -> str:
    key = f"{hashlib.sha256(content).hexdigest()}.{ending}"
    s3.put_object(Bucket=ARTIFACTS, Key=key, Body=content)
    return f"s3://{ARTIFACTS}/{key}"


def _inline_numbers(body: dict[str, Any], parameters: Mapping[str, str]) -> None:
    """Works around a gap: a number parameter reaches queues and mappings as text, which stops their pollers."""
    numbers = {
        name: int(float(parameters.get(name, parameter.get("Default", 0))))
        for name, parameter in body.get("Parameters", {}).items()
        if parameter["Type"] == "Number"
    }
    for resource in body["Resources"].values():
        if resource["Type"] in ("AWS::Lambda::EventSourceMapping", "AWS::SQS::Queue"):
            resource["Properties"] = _resolved(resource["Properties"], numbers)
        elif "StreamSpecification" in resource.get("Properties", {}):
            resource["Properties"]["StreamSpecification"]["StreamEnabled"] = (
                True  # implied on AWS, required by the emulator
            )


def _resolved(value: Any, numbers: Mapping[str, int]) -> Any:
    if isinstance(value, dict):
        if set(value) == {"Ref"} and value["Ref"] in numbers:
            return numbers[value["Ref"]]
        return {name: _resolved(item, numbers) for name, item in value.items()}
    if isinstance(value, list):
        return [_resolved(item, numbers) for item in value]
    return value


def _upload_template(s3: Any, body: dict[str, Any]) -> str:
    uri = _upload(s3, json.dumps(body, default=str).encode(), "json")
    return f"https://s3.{REGION}.amazonaws.com/{uri.removeprefix('s3://')}"


class _NoManagedPolicies:
    """No managed policies: the translator needs a loader, the emulator does not check policies."""

    def load(self) -> dict[str, str]:
        return {}


def _translate(body: dict[str, Any], parameters: Mapping[str, str]) -> dict[str, Any]:
    import boto3
    from samtranslator.parser.parser import Parser
    from samtranslator.translator.translator import Translator

    translator = Translator(_NoManagedPolicies(), Parser(), boto_session=boto3.Session(region_name=REGION))
    translated = translator.translate(body, dict(parameters))
    assert isinstance(translated, dict)
    return translated


def _apply(cloudformation: Any, name: str, url: str, parameters: Mapping[str, str]) -> dict[str, str]:
    request = {
        "StackName": name,
        "TemplateURL": url,  # a template in the call may have 51,200 characters
        "Capabilities": ["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"],
        "Parameters": [{"ParameterKey": key, "ParameterValue": value} for key, value in parameters.items()],
    }
    try:
        cloudformation.create_stack(**request)
    except cloudformation.exceptions.AlreadyExistsException:
        _update(cloudformation, request)
    stack = _wait_for_stack(cloudformation, name)
    if stack["StackStatus"] not in ("CREATE_COMPLETE", "UPDATE_COMPLETE"):
        raise LocalStackError(f"the template was not deployed: {_first_failure(cloudformation, stack)}")
    return {output["OutputKey"]: output["OutputValue"] for output in stack.get("Outputs", [])}


def _update(cloudformation: Any, request: dict[str, Any]) -> None:
    try:
        cloudformation.update_stack(**request)
    except ClientError as error:
        if "No updates" not in str(error):
            raise


def _wait_for_stack(cloudformation: Any, name: str) -> dict[str, Any]:
    end = time.monotonic() + DEPLOY_SECONDS
    while time.monotonic() < end:
        stack: dict[str, Any] = cloudformation.describe_stacks(StackName=name)["Stacks"][0]
        if not stack["StackStatus"].endswith("IN_PROGRESS"):
            return stack
        time.sleep(0.1)
    raise LocalStackError(f"the template was not deployed within {DEPLOY_SECONDS} s")


def _first_failure(cloudformation: Any, stack: dict[str, Any]) -> str:
    events = cloudformation.describe_stack_events(StackName=stack["StackName"])["StackEvents"]
    failed = [event for event in events if "FAILED" in event["ResourceStatus"]]
    if not failed:
        return str(stack.get("StackStatusReason", stack["StackStatus"]))
    return f"{failed[-1]['LogicalResourceId']}: {failed[-1].get('ResourceStatusReason', 'no reason given')}"


def _enable_ttl(clients: Clients, stack_name: str, resources: dict[str, Any]) -> None:
    described = clients("cloudformation").describe_stack_resources(StackName=stack_name)["StackResources"]
    names = {item["LogicalResourceId"]: item["PhysicalResourceId"] for item in described}
    for logical, resource in resources.items():
        wanted = resource.get("Properties", {}).get("TimeToLiveSpecification")
        if wanted and logical in names:
            clients("dynamodb").update_time_to_live(TableName=names[logical], TimeToLiveSpecification=wanted)
