"""Workarounds for the emulator's gaps: routes from an OpenAPI body, metrics from a log line, archives."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import pytest
from proxypool.local import process, stack
from proxypool.local.emulation import deploy, httpapi, metrics_forwarder


def an_api(**paths: Any) -> dict[str, Any]:
    return {"Api": {"Type": "AWS::ApiGatewayV2::Api", "Properties": {"Body": {"paths": paths}, "FailOnWarnings": True}}}


def test_each_operation_becomes_a_route_without_authorization() -> None:
    lease = {"x-amazon-apigateway-integration": {"uri": "arn:lease", "payloadFormatVersion": "2.0"}}
    resources = an_api(**{"/leases": {"post": lease, "get": lease}, "/nothing": {"get": {}}})

    httpapi.expand_routes(resources)

    routes = [item["Properties"] for item in resources.values() if item["Type"].endswith("::Route")]
    assert {route["RouteKey"] for route in routes} == {"POST /leases", "GET /leases"}
    assert {route["AuthorizationType"] for route in routes} == {"NONE"}
    assert "Body" not in resources["Api"]["Properties"]


def test_routes_of_any_method_and_the_default_route_get_the_gateways_names() -> None:
    """SAM writes $default as a path of any method."""
    any_method = {"x-amazon-apigateway-any-method": {"x-amazon-apigateway-integration": {"uri": "arn"}}}
    body = {"paths": {"$default": any_method, "/leases/{proxy+}": any_method}}
    resources: dict[str, Any] = {"Api": {"Type": "AWS::ApiGatewayV2::Api", "Properties": {"Body": body}}}

    httpapi.expand_routes(resources)

    routes = [item["Properties"] for item in resources.values() if item["Type"].endswith("::Route")]
    assert [route["RouteKey"] for route in routes] == ["$default", "ANY /leases/{proxy+}"]


def test_a_metric_line_becomes_the_data_of_cloudwatch() -> None:
    line = (
        '{"_aws": {"CloudWatchMetrics": [{"Namespace": "ProxyPool", "Dimensions": [["service"]],'
        ' "Metrics": [{"Name": "ChecksPassed", "Unit": "Count"}]}]}, "service": "proxypool", "ChecksPassed": [3]}'
    )

    assert metrics_forwarder.parse_metrics(line) == [
        (
            "ProxyPool",
            [
                {
                    "MetricName": "ChecksPassed",
                    "Unit": "Count",
                    "Dimensions": [{"Name": "service", "Value": "proxypool"}],
                    "Values": [3.0],
                }
            ],
        )
    ]


def test_other_lines_have_no_metrics() -> None:
    assert metrics_forwarder.parse_metrics("START RequestId") == []
    assert metrics_forwarder.parse_metrics('{"_aws": 1}') == []


def test_a_layer_has_the_packages_of_its_folder_under_python(tmp_path: Path) -> None:
    package = tmp_path / "pack"
    (package / "__pycache__").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "__pycache__" / "x.pyc").write_text("")
    (package / "a.lua").write_text("return 1")

    names = zipfile.ZipFile(io.BytesIO(deploy.layer(tmp_path))).namelist()

    assert sorted(names) == ["python/.layer", "python/pack/__init__.py", "python/pack/a.lua"]


def test_the_same_folder_gives_the_same_archive(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("x = 1")

    assert deploy.archive(tmp_path) == deploy.archive(tmp_path)


def test_a_truncated_stack_file_means_that_no_stack_runs(tmp_path: Path) -> None:
    (tmp_path / "stack.json").write_text('{"pid": 1')

    assert stack.read_state(tmp_path) is None


def test_a_folder_without_a_template_is_an_error(tmp_path: Path) -> None:
    plan = stack.Plan(root=tmp_path, folder=tmp_path / ".local")

    with pytest.raises(process.LocalStackError, match="no template"), stack.run_stack(plan):
        pass


def test_loopback_is_excluded_from_a_configured_proxy() -> None:
    assert {"127.0.0.1", "localhost"} <= set(process.no_proxy()["NO_PROXY"].split(","))
