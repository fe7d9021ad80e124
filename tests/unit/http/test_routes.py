"""Tables of operations compared with API Gateway routes and IAM policies of the templates."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterable
from typing import Any

import pytest
from proxypool.config.settings import Settings
from proxypool.http.caller import Right
from proxypool.http.operation import Operation
from proxypool.leases import operations as lease_operations
from proxypool.leases.build import build_cache, build_pool, build_sessions
from proxypool.local.emulation import template
from proxypool.manage import document, routes

from tests.support.servers import ROOT

CONFIG = Settings(redis_url="redis://127.0.0.1:1")
RESOURCES = template.load(ROOT / "template.yaml")["Resources"]
TOKENS = template.load(ROOT / "infra/tokens.yaml")["Resources"]
LEASE = list(
    lease_operations.router(
        CONFIG, lambda: build_pool(CONFIG, build_cache(CONFIG)), lambda: build_sessions(CONFIG)
    ).operations
)
MANAGE = list(routes.router(CONFIG).operations)
FUNCTIONS = {row.route: function for function, rows in (("Lease", LEASE), ("Manage", MANAGE)) for row in rows}
ARN = "arn:AWS::Partition:execute-api:AWS::Region:AWS::AccountId:Api/"


def _iam_api() -> dict[str, str]:
    """The function of each route key of the API for signed requests."""
    found = {}
    for function in ("Lease", "Manage"):
        for event in RESOURCES[f"{function}Function"]["Properties"]["Events"].values():
            if event["Type"] == "HttpApi":
                route = event["Properties"]
                found[f"{route['Method']} {route['Path']}" if "Path" in route else "$default"] = function
    return found


def _token_api() -> dict[str, str]:
    """The function of each route key of the API for tokens."""
    rows = [item["Properties"] for item in TOKENS.values() if item["Type"] == "AWS::ApiGatewayV2::Route"]
    return {row["RouteKey"]: row["Target"]["Fn::Sub"].removeprefix("integrations/")[2:-1] for row in rows}


def _routed(method: str, path: str, keys: Iterable[str]) -> str:
    """The route key that API Gateway selects: a full match, then a greedy one, then $default; the exact method before ANY."""
    for pattern in ("[^/]+", ".+"):
        for verb in (method, "ANY"):
            for key in keys:
                key_method, _, template_path = key.partition(" ")
                greedy = "{proxy+}" in template_path
                if key_method != verb or greedy != (pattern == ".+"):
                    continue
                if re.fullmatch(re.sub(r"\\\{.*?\\\}", pattern, re.escape(template_path)), path):
                    return key
    return "$default"


@pytest.mark.parametrize("api", [_iam_api(), _token_api()], ids=["iam", "token"])
@pytest.mark.parametrize("route", FUNCTIONS)
def test_both_apis_route_each_operation_to_its_function(route: str, api: dict[str, str]) -> None:
    """Otherwise the route would be a 404."""
    method, _, path = route.partition(" ")

    key = _routed(method, path.replace("{id}", "a"), api)

    assert api[key] == FUNCTIONS[route]
    assert (key == route) == (route in ("POST /leases", "POST /jobs"))  # routes with separate throttling


def test_each_route_is_in_one_table_and_in_the_document() -> None:
    paths = document.load_openapi()["paths"]

    assert len(FUNCTIONS) == len(LEASE) + len(MANAGE)
    assert {f"{method.upper()} {path}" for path, item in paths.items() for method in item} == FUNCTIONS.keys()


def _paths(rows: Iterable[Operation[Any]]) -> set[str]:
    """The routes as resources of a policy: "GET/leases", and "GET/leases/*" for all paths below."""
    parts = [(row.method, *row.path[1:].partition("/")) for row in rows]
    return {f"{method}/{first}/*" if rest else f"{method}/{first}" for method, first, _, rest in parts}


def _covers(pattern: str, text: str) -> bool:
    """Matches like IAM: `*` is any text, including slashes."""
    return re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), text) is not None


def _users_policy() -> list[str]:
    """The resources of the policy for users, after the API's ARN."""
    (statement,) = RESOURCES["UsersPolicy"]["Properties"]["PolicyDocument"]["Statement"]
    assert (statement["Effect"], statement["Action"]) == ("Allow", "execute-api:Invoke")
    resources = [re.sub(r"\$\{([\w:]+)\}", r"\1", resource["Fn::Sub"]) for resource in statement["Resource"]]
    assert all(resource.startswith(ARN) for resource in resources)
    return [resource.removeprefix(ARN) for resource in resources]


def test_the_policy_for_users_has_exactly_the_routes_of_users() -> None:
    """A new route for users needs a line in the template."""
    users = _paths(row for row in (*LEASE, *MANAGE) if row.right is Right.USER)

    assert sorted(_users_policy()) == sorted(f"*/{path}" for path in users)


@pytest.mark.parametrize("stage", ["$default", "prod"])
def test_the_policy_for_users_allows_no_operator_route(stage: str) -> None:
    """Wildcards of IAM match slashes; no id of an operator route may match a route of users (PUT /domains/jobs)."""
    ids = [
        "a",
        "0" * 20,
        "jobs",
        "leases",
        "proxies",
        "GET",
        "POST/leases/x",
        "GET/leases/x",
        "POST%2Fjobs",
        "stats/pool",
    ]
    operators = [row for row in MANAGE if row.right is Right.OPERATOR]
    requests = [(row, path_id) for row in operators for path_id in (ids if row.id_pattern else [""])]
    allowed = [
        f"{row.method} {path}"
        for row, path_id in requests
        for path in [row.path.replace("{id}", path_id)]
        if any(_covers(pattern, f"{stage}/{row.method}{path}") for pattern in _users_policy())
        and re.fullmatch(row.id_pattern, path_id)  # else the router answers 404
    ]

    assert "PATCH /settings" in [row.route for row in operators]
    assert allowed == []


def test_the_access_log_has_the_path() -> None:
    formats = [RESOURCES["Api"]["Properties"]["AccessLogSettings"], TOKENS["Stage"]["Properties"]["AccessLogSettings"]]

    for settings in formats:
        line = json.loads(settings["Format"])
        assert (line["method"], line["path"]) == ("$context.httpMethod", "$context.path")
    assert formats[0]["Format"] == formats[1]["Format"]


@pytest.mark.parametrize(
    ("function", "others"),
    [
        ("lease", ["proxypool.manage", "proxypool.jobs", "proxypool.sources"]),
        ("manage", ["proxypool.leases.operations"]),
    ],
)
def test_a_function_imports_its_own_routes_only(function: str, others: list[str]) -> None:
    """For a short cold start."""
    code = f"import sys; import functions.{function}.app; print(*sys.modules)"

    modules = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout

    assert "proxypool.http.router" in modules.split()
    assert not [name for name in modules.split() if name.startswith(tuple(others))]
    assert "aws_lambda_powertools.event_handler" not in modules.split()
