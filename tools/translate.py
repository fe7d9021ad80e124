"""Writes template.yaml as plain CloudFormation, so that the resources that SAM generates are linted, too."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import boto3
from proxypool.local.emulation import template
from samtranslator.parser.parser import Parser
from samtranslator.translator.translator import Translator


class _ManagedPolicies:
    """The translator's source of ARNs of managed policies; without ARNs it uses their names."""

    def load(self) -> dict[str, str]:
        return {}


def translate(source: Path) -> dict[str, object]:
    """The template after SAM's transform; code has S3 locations, as after `sam package`."""
    body = template.load(source)
    for resource in body["Resources"].values():
        for place in {"CodeUri", "ContentUri"} & resource.get("Properties", {}).keys():
            resource["Properties"][place] = "s3://artifacts/code.zip"
        if resource["Type"] == "AWS::CloudFormation::Stack":
            resource["Properties"]["TemplateURL"] = "https://artifacts.s3.amazonaws.com/nested.yaml"
    session = boto3.Session(region_name="us-east-1")
    out: dict[str, object] = Translator(_ManagedPolicies(), Parser(), boto_session=session).translate(body, {})
    return out


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(translate(Path("template.yaml")), indent=1, default=str))
