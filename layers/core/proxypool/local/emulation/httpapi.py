"""Works around a gap of the emulator: it ignores the OpenAPI body of an HTTP API, where SAM defines the routes.

Each operation of the body becomes an integration and a route, without authorization: `guard` checks the callers.
"""

from __future__ import annotations

from typing import Any

_ANY = "x-amazon-apigateway-any-method"


def expand_routes(resources: dict[str, Any]) -> None:
    """Replaces the body of each HTTP API in a translated template by integrations and routes, in place."""
    for name, resource in list(resources.items()):
        properties = resource.get("Properties", {})
        if resource["Type"] != "AWS::ApiGatewayV2::Api" or "Body" not in properties:
            continue
        body = properties.pop("Body")
        properties.pop("FailOnWarnings", None)
        properties["ProtocolType"] = "HTTP"
        properties.setdefault("Name", name)
        resources.update(_routes(name, body))


def _routes(api: str, body: dict[str, Any]) -> dict[str, Any]:
    resources: dict[str, Any] = {}
    for path, operations in body.get("paths", {}).items():
        for method, operation in operations.items():
            integration = operation.get("x-amazon-apigateway-integration")
            if integration:
                resources |= _route(api, len(resources) // 2, _route_key(method, path), integration)
    return resources


def _route(api: str, number: int, key: str, integration: dict[str, Any]) -> dict[str, Any]:
    integration_id = f"{api}Integration{number}"
    target = {"Fn::Join": ["/", ["integrations", {"Ref": integration_id}]]}
    return {
        integration_id: {
            "Type": "AWS::ApiGatewayV2::Integration",
            "Properties": {
                "ApiId": {"Ref": api},
                "IntegrationType": "AWS_PROXY",
                "IntegrationUri": integration["uri"],
                "IntegrationMethod": "POST",
                "PayloadFormatVersion": str(integration.get("payloadFormatVersion", "2.0")),
            },
        },
        f"{api}Route{number}": {
            "Type": "AWS::ApiGatewayV2::Route",
            "Properties": {"ApiId": {"Ref": api}, "RouteKey": key, "Target": target, "AuthorizationType": "NONE"},
        },
    }


def _route_key(method: str, path: str) -> str:
    if path.lstrip("/") == "$default":
        return "$default"
    return f"{'ANY' if method == _ANY else method.upper()} {path}"
