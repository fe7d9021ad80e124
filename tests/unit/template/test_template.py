"""template.yaml and infra/: variables, limits that depend on each other, routes, events, network and permissions of the edge."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from proxypool.aws.events import Event
from proxypool.aws.state import SETTINGS_CACHE_SECONDS
from proxypool.config.settings import ENVIRONMENT_FIELDS, OVERRIDES, Settings
from proxypool.local.emulation import template
from proxypool.proxies.proxy import Status
from proxypool.proxies.table import to_item
from proxypool.tasks.retry import REASON_TTL_SECONDS
from proxypool_client.cli.app import app
from proxypool_client.cli.output import Exit
from typer.testing import CliRunner

from tests.support.builders import a_record

ROOT = Path(__file__).parents[3]
TEMPLATE = template.load(ROOT / "template.yaml")
RESOURCES: dict[str, Any] = TEMPLATE["Resources"]
FUNCTIONS = {
    name: item["Properties"] for name, item in RESOURCES.items() if item["Type"] == "AWS::Serverless::Function"
}
SHARED = TEMPLATE["Globals"]["Function"]["Environment"]["Variables"]


def _default(parameter: str) -> Any:
    return TEMPLATE["Parameters"][parameter]["Default"]


def _events(kind: str) -> dict[str, Any]:
    return {
        f"{name}.{label}": event["Properties"]
        for name, function in FUNCTIONS.items()
        for label, event in function.get("Events", {}).items()
        if event["Type"] == kind
    }


def test_the_template_gives_each_variable_that_a_setting_reads_and_no_other() -> None:
    """The overrides are one variable of every function; test_samples runs each function with only its own variables."""
    own = [function.get("Environment", {}).get("Variables", {}) for function in FUNCTIONS.values()]

    fed = set(SHARED).union(*own) - {"POWERTOOLS_LOG_LEVEL", OVERRIDES}

    assert fed == {name.upper() for name in ENVIRONMENT_FIELDS}
    assert SHARED[OVERRIDES] == {"Ref": "Overrides"}


def test_the_environment_fits_into_4_kb_at_its_longest() -> None:
    """Lambda's limit is for names and values together; quotes and separators of a JSON object are counted, too."""
    for name, function in FUNCTIONS.items():
        variables = SHARED | function.get("Environment", {}).get("Variables", {})
        size = sum(len(variable) + _longest(value) + len('"":"",') for variable, value in variables.items())
        assert size <= 4_096, (name, size)


STACK_NAME_CHARS = 80 - len("-validate")  # a queue's name has at most 80 characters, and the stack's name in it
HOST_CHARS = 100
ARN_CHARS = 2 * HOST_CHARS
NAMES_CHARS = {"AWS::SQS::Queue": HOST_CHARS + 80, "AWS::SecretsManager::Secret": ARN_CHARS}


def _longest(value: Any) -> int:
    """The maximum number of characters of a variable's value."""
    if isinstance(value, str):
        return len(value)
    ((function, given),) = value.items()
    if function == "Fn::If":
        return max(map(_longest, given[1:]))
    if function == "Fn::Sub":
        return len(given) + HOST_CHARS
    if function == "Fn::GetAtt":
        return ARN_CHARS
    parameter = TEMPLATE["Parameters"].get(given)
    if parameter is None:
        return NAMES_CHARS.get(RESOURCES[given]["Type"], STACK_NAME_CHARS + len(given) + len("--0123456789abc"))
    if "AllowedValues" in parameter:
        return max(map(len, parameter["AllowedValues"]))
    if "MaxLength" in parameter:
        return int(parameter["MaxLength"])
    return {"Pool": 20, "SourceBucket": 63}[given]  # by their patterns


def test_a_person_reads_at_most_twelve_parameters_first_and_guided_asks_at_most_forty_questions() -> None:
    """`sam deploy --guided` prompts for each parameter and for eight values of its own (guided_context.py of SAM 1.15x)."""
    groups = TEMPLATE["Metadata"]["AWS::CloudFormation::Interface"]["ParameterGroups"]

    assert sum(len(group["Parameters"]) for group in groups[:2]) <= 12
    assert sorted(name for group in groups for name in group["Parameters"]) == sorted(TEMPLATE["Parameters"])
    assert len(TEMPLATE["Parameters"]) + 8 <= 40


PACES: dict[str, dict[str, int]] = TEMPLATE["Mappings"]["Pace"]


def _paced(name: str) -> dict[str, Any]:
    return {"Fn::FindInMap": ["Pace", {"Ref": "Pace"}, name]}


@pytest.mark.parametrize("pace", PACES)
@pytest.mark.parametrize(
    ("stage", "function", "receives"),
    [("Scrape", "ScrapeSource", 3), ("Validate", "ValidateProxy", 3), ("Fetch", "FetchPage", 6)],
)
def test_a_message_stays_hidden_six_times_as_long_as_its_function_may_run(
    pace: str, stage: str, function: str, receives: int
) -> None:
    """AWS recommends six times; after a crash the message must not be delivered while the first run may still work."""
    queue = RESOURCES[f"{stage}Queue"]["Properties"]

    assert queue["VisibilityTimeout"] == _paced(f"{stage}VisibilitySeconds")
    assert FUNCTIONS[f"{function}Function"]["Timeout"] == _paced(f"{stage}TimeLimitSeconds")
    assert PACES[pace][f"{stage}VisibilitySeconds"] >= 6 * PACES[pace][f"{stage}TimeLimitSeconds"]
    assert queue["RedrivePolicy"]["maxReceiveCount"] == receives


@pytest.mark.parametrize("pace", PACES)
def test_a_batch_of_more_than_ten_has_a_window(pace: str) -> None:
    """Lambda rejects a mapping without one."""
    for stage in ("Validate", "Fetch"):
        assert PACES[pace][f"{stage}Batch"] <= 10 or PACES[pace][f"{stage}WindowSeconds"] >= 1


@pytest.mark.parametrize("pace", PACES)
def test_the_period_of_a_silence_alarm_is_over_twice_its_schedule(pace: str) -> None:
    """And a multiple of 60 seconds, at most a day, as CloudWatch requires."""
    for task, minutes in (("Scrape", 30), ("Sweep", 15), ("Expire", 1)):
        seconds = PACES[pace][f"{task}SilenceSeconds"]
        assert 2 * minutes * 60 < seconds <= 86_400
        assert seconds % 60 == 0


@pytest.mark.parametrize("pace", PACES)
def test_claims_outlive_their_runs_and_end_before_the_message_is_redelivered(pace: str) -> None:
    """Inputs 71 and 84. Otherwise two runs could work at once, or a retry after a crash would fail at the claim."""
    for claim, stage in ((Settings().scrape_claim_seconds, "Scrape"), (Settings().claim_seconds, "Validate")):
        assert PACES[pace][f"{stage}TimeLimitSeconds"] + 30 <= claim < PACES[pace][f"{stage}VisibilitySeconds"]


def test_every_function_has_a_log_group_with_a_retention() -> None:
    """Logs are not stored indefinitely."""
    for function in FUNCTIONS.values():
        logs = RESOURCES[function["LoggingConfig"]["LogGroup"]["Ref"]]
        assert logs["Properties"]["RetentionInDays"] == {"Ref": "LogRetentionDays"}


def test_every_function_has_its_folder_and_its_sample_event() -> None:
    """The template and events/ have the same functions."""
    folders = {function["CodeUri"].removeprefix("functions/") for function in FUNCTIONS.values()}

    assert len(folders) == 12
    assert folders == {path.stem for path in (ROOT / "events").glob("*.json")}


def test_the_command_in_the_outputs_is_valid() -> None:
    """Users copy it from the output of a deployment."""
    line = TEMPLATE["Outputs"]["LeaseByCli"]["Value"]["Fn::Sub"].replace("${Api}", "a1b2")
    words = re.sub(r"\$\{[^}]*\}", "127.0.0.1", line).split()

    found = CliRunner().invoke(app, [*words[1:-1], "http://127.0.0.1:9"])

    assert words[0] == "proxypool"
    assert found.exit_code == Exit.UNREACHABLE


def test_the_schedules_are_the_documented_ones() -> None:
    """Five schedules, in UTC, with no retry of their own."""
    schedules = _events("ScheduleV2")

    assert {_default(item["ScheduleExpression"]["Ref"]) for item in schedules.values()} == {
        "cron(0,30 * * * ? *)",
        "cron(10,25,40,55 * * * ? *)",
        "cron(0 3 * * ? *)",
        "cron(0 4 * * ? *)",
        "rate(1 minute)",
    }
    for name, item in schedules.items():
        assert item["RetryPolicy"] == {"MaximumRetryAttempts": 0}
        assert FUNCTIONS[name.partition(".")[0]]["EventInvokeConfig"] == {"MaximumRetryAttempts": 0}


def test_no_policy_of_a_function_has_a_wildcard_resource_or_action() -> None:
    """Least privilege."""
    for name, function in FUNCTIONS.items():
        text = json.dumps(function.get("Policies", []))
        assert '"*"' not in text, name
        assert not re.search(r'"[a-z0-9-]+:\*"', text), name


def test_the_lease_function_has_permission_for_the_cache_only() -> None:
    """It has none for DynamoDB, SQS or Secrets Manager."""
    assert set(re.findall(r'"(\w+:\w+)"', json.dumps(FUNCTIONS["LeaseFunction"]["Policies"]))) == {
        "elasticache:Connect"
    }


def test_iam_resources_have_generated_names() -> None:
    """A custom name would require CAPABILITY_NAMED_IAM and collide with a second stack."""
    for item in RESOURCES.values():
        assert not {"RoleName", "ManagedPolicyName", "UserName", "GroupName"} & item.get("Properties", {}).keys()


def test_every_route_requires_an_identity() -> None:
    """Input 61: IAM is the default of every route, and no route disables it; each route of the second API requires a token."""
    assert RESOURCES["Api"]["Properties"]["Auth"]["DefaultAuthorizer"] == "AWS_IAM"
    assert all("Auth" not in route for route in _events("HttpApi").values())
    for route in TOKEN_ROUTES.values():
        assert (route["AuthorizationType"], route["AuthorizerId"]) == ("JWT", {"Ref": "Token"})


TOKENS = template.load(ROOT / "infra/tokens.yaml")
TOKEN_ROUTES = {
    name: item["Properties"] for name, item in TOKENS["Resources"].items() if item["Type"] == "AWS::ApiGatewayV2::Route"
}


def test_the_api_for_tokens_has_the_same_routes_and_functions() -> None:
    """With the same logical ids."""
    iam_routes = {
        name.partition(".")[2]: (f"{item['Method']} {item['Path']}" if "Path" in item else "$default", name.partition("Function")[0])
        for name, item in _events("HttpApi").items()
    }  # fmt: skip

    token_routes = {
        name: (route["RouteKey"], route["Target"]["Fn::Sub"].removeprefix("integrations/")[2:-1])
        for name, route in TOKEN_ROUTES.items()
    }

    assert token_routes == iam_routes


def test_the_api_for_tokens_is_created_with_an_issuer_and_requires_an_audience() -> None:
    """Without an audience, tokens for any service of that issuer would be accepted."""
    (rule,) = TEMPLATE["Rules"]["AudienceIsRequired"]["Assertions"]

    assert TEMPLATE["Conditions"]["HasTokens"] == {"Fn::Not": [{"Fn::Equals": [{"Ref": "JwtIssuer"}, ""]}]}
    assert RESOURCES["Tokens"]["Condition"] == "HasTokens"
    assert rule["Assert"] == {"Fn::Not": [{"Fn::Equals": [{"Ref": "JwtAudience"}, ""]}]}
    assert TOKENS["Resources"]["Token"]["Properties"]["JwtConfiguration"] == {
        "Issuer": {"Ref": "Issuer"},
        "Audience": {"Ref": "Audience"},
    }


def test_both_apis_are_throttled_by_route_with_one_set_of_parameters() -> None:
    """Inputs 57 and 92: guessing and loops; the two routes that start work have their own limits."""
    api, stage = RESOURCES["Api"]["Properties"], TOKENS["Resources"]["Stage"]
    passed = RESOURCES["Tokens"]["Properties"]["Parameters"]

    def resolved(settings: Any) -> Any:
        """The settings with the main template's parameters."""
        return {limit: passed.get(value["Ref"], value) for limit, value in settings.items()}

    for iam_limits, token_limits in (
        (api["DefaultRouteSettings"], stage["Properties"]["DefaultRouteSettings"]),
        *((api["RouteSettings"][route], stage["Properties"]["RouteSettings"][route]) for route in api["RouteSettings"]),
    ):
        assert iam_limits == resolved(token_limits)
        assert iam_limits.keys() == {"ThrottlingRateLimit", "ThrottlingBurstLimit"}
    assert api["RouteSettings"].keys() == stage["Properties"]["RouteSettings"].keys() == {"POST /leases", "POST /jobs"}
    assert {TOKEN_ROUTES[name]["RouteKey"] for name in stage["DependsOn"]} == api["RouteSettings"].keys()
    rates = {name: int(_default(f"{name}Throttle").split(",")[0]) for name in ("Api", "Lease", "Job")}
    assert rates["Lease"] <= 1_000  # a pool uses one slot of the cache
    assert rates["Job"] < rates["Api"]


@pytest.mark.parametrize("event", list(Event))
def test_every_event_of_the_bus_has_a_schema_with_a_valid_example(event: Event) -> None:
    """Consumers are written against these files."""
    schema = json.loads((ROOT / f"events/bus/{event}.schema.json").read_text())

    (example,) = schema["examples"]
    jsonschema.validate(example, schema)

    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({}, schema)


EDGE = {name: item["Properties"] for name, item in template.load(ROOT / "infra/edge.yaml")["Resources"].items()}
ALL_VIEWER_EXCEPT_HOST = "b689b0a8-53d0-40ab-baf2-68738e2966ac"
CACHING_DISABLED = "4135ea2d-6df8-44a3-9df3-4b5a84be39ad"


def test_the_judges_distribution_forwards_all_headers_except_host() -> None:
    """Input 42: http and https, nothing cached; the signature of CloudFront includes the function's own Host."""
    behavior = EDGE["Distribution"]["DistributionConfig"]["DefaultCacheBehavior"]

    assert behavior["ViewerProtocolPolicy"] == "allow-all"
    assert (behavior["CachePolicyId"], behavior["OriginRequestPolicyId"]) == (CACHING_DISABLED, ALL_VIEWER_EXCEPT_HOST)
    assert set(behavior["AllowedMethods"]) == {"GET", "HEAD"}


def test_the_judge_can_be_invoked_by_its_own_distribution_only() -> None:
    """A function URL requires two permissions; both have the distribution as source, the second is for calls by URL only."""
    permissions = {item["Action"]: item for item in EDGE.values() if "Action" in item}
    source = {"Fn::Sub": "arn:${AWS::Partition}:cloudfront::${AWS::AccountId}:distribution/${Distribution}"}

    assert permissions.keys() == {"lambda:InvokeFunctionUrl", "lambda:InvokeFunction"}
    assert all(item["SourceArn"] == source for item in permissions.values())
    assert permissions["lambda:InvokeFunctionUrl"]["FunctionUrlAuthType"] == "AWS_IAM"
    assert permissions["lambda:InvokeFunction"]["InvokedViaFunctionUrl"] is True
    assert FUNCTIONS["JudgeFunction"]["FunctionUrlConfig"] == {"AuthType": "AWS_IAM"}
    assert EDGE["AccessControl"]["OriginAccessControlConfig"]["OriginAccessControlOriginType"] == "lambda"


@pytest.mark.parametrize(("mapping", "width"), [("ScrapeMapping", 10), ("ValidateMapping", 40)])
def test_a_queue_uses_no_more_of_the_accounts_concurrency_than_its_width(mapping: str, width: int) -> None:
    """Input 86: MaximumConcurrency on both, 50 in total; nothing is reserved, since that fails in a new account."""
    scaling = RESOURCES[mapping]["Properties"]["ScalingConfig"]

    assert _default(scaling["MaximumConcurrency"]["Ref"]) == width
    assert not any("ReservedConcurrentExecutions" in function for function in FUNCTIONS.values())


@pytest.mark.parametrize("mapping", ["ScrapeMapping", "ValidateMapping", "IndexMapping"])
def test_a_mapping_retries_only_the_failed_items_of_a_batch(mapping: str) -> None:
    """Input 73: partial batch responses on all three; a filter on a queue would delete its messages."""
    properties = RESOURCES[mapping]["Properties"]

    assert properties["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert ("FilterCriteria" in properties) is (mapping == "IndexMapping")


@pytest.mark.parametrize(
    ("before", "after", "is_delivered"),
    [
        (None, Status.UNCHECKED, False),  # a new row from a list
        (Status.UNCHECKED, Status.UNCHECKED, False),  # its claim
        (Status.UNCHECKED, Status.DEAD, False),
        (Status.DEAD, None, False),  # pruned: the index removed it when it died
        (Status.UNCHECKED, Status.ACTIVE, True),
        (Status.DEAD, Status.ACTIVE, True),
        (Status.ACTIVE, Status.ACTIVE, True),
        (Status.ACTIVE, Status.DEAD, True),
        (Status.ACTIVE, Status.RETIRED, True),
        (Status.ACTIVE, None, True),
    ],
)
def test_index_pool_receives_every_change_of_a_proxy_that_is_or_was_active(
    before: Status | None, after: Status | None, is_delivered: bool
) -> None:
    """I7 and I11: other rows are not in Redis, so that a list of dead proxies costs no invocation and no memory."""
    images = {
        name: to_item(a_record(status=status)).serialize()
        for name, status in (("OldImage", before), ("NewImage", after))
        if status
    }
    filters = RESOURCES["IndexMapping"]["Properties"]["FilterCriteria"]["Filters"]

    assert any(_matches(json.loads(one["Pattern"]), {"dynamodb": images}) for one in filters) is is_delivered


def _matches(pattern: dict[str, Any], value: dict[str, Any]) -> bool:
    """Lambda's matching of patterns with names and lists of values."""
    return all(
        _matches(wanted, value.get(name, {})) if isinstance(wanted, dict) else value.get(name) in wanted
        for name, wanted in pattern.items()
    )


def test_a_dead_letter_and_its_reason_have_the_same_retention() -> None:
    """Input 74: 14 days."""
    for stage in ("Scrape", "Validate"):
        queue = RESOURCES[f"{stage}DeadLetterQueue"]["Properties"]
        assert queue["MessageRetentionPeriod"] == REASON_TTL_SECONDS
        assert queue["RedriveAllowPolicy"]["redrivePermission"] == "byQueue"


def test_the_cost_that_a_caller_can_cause_is_bounded() -> None:
    """Input 92: throttles of the API, a quota per owner, a maximum size of the cache, a budget with a notice."""
    throttle = RESOURCES["Api"]["Properties"]["DefaultRouteSettings"]
    limits = template.load(ROOT / "infra/cache.yaml")["Resources"]["Cache"]["Properties"]["CacheUsageLimits"]
    budget = RESOURCES["Budget"]["Properties"]

    assert throttle.keys() == {"ThrottlingRateLimit", "ThrottlingBurstLimit"}
    assert limits.keys() == {"DataStorage", "ECPUPerSecond"}
    assert all("Maximum" in limit for limit in limits.values())
    assert budget["Budget"]["BudgetLimit"]["Amount"] == {"Ref": "BudgetUsd"}
    assert budget["NotificationsWithSubscribers"][0]["Subscribers"]
    assert _default("BudgetUsd") > 0


def test_the_kill_switch_takes_effect_within_a_minute() -> None:
    """Input 91: functions cache it for at most 30 s; for leases, PATCH /settings invokes expire_leases."""
    assert SETTINGS_CACHE_SECONDS <= 30
    assert _default("ExpireLeasesSchedule") == "rate(1 minute)"
    assert FUNCTIONS["ManageFunction"]["Environment"]["Variables"]["EXPIRE_LEASES_FUNCTION"] == {
        "Ref": "ExpireLeasesFunction"
    }


def test_functions_in_the_network_reach_the_cache_and_dynamodb_only() -> None:
    """No NAT, no internet gateway, no paid endpoint."""
    network = template.load(ROOT / "infra/network.yaml")["Resources"]
    endpoints = [item["Properties"] for item in network.values() if item["Type"] == "AWS::EC2::VPCEndpoint"]

    assert [(one["VpcEndpointType"], one["ServiceName"]) for one in endpoints] == [
        ("Gateway", {"Fn::Sub": "com.amazonaws.${AWS::Region}.dynamodb"})
    ]
    assert not {"AWS::EC2::NatGateway", "AWS::EC2::InternetGateway"} & {item["Type"] for item in network.values()}
    (ingress,) = network["CacheSecurityGroup"]["Properties"]["SecurityGroupIngress"]
    assert (ingress["FromPort"], ingress["ToPort"]) == (6379, 6380)
