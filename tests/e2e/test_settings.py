"""The settings of a deployment: printed by the command line, validated by CloudFormation."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError
from proxypool.local.emulation.access import STACK_NAME

from tests.support.stack import SECONDS, LocalStack

pytestmark = [pytest.mark.xdist_group("stack"), pytest.mark.timeout(120)]


def test_the_command_prints_the_effective_settings(stack: LocalStack) -> None:
    """Overrides and defaults by their source, and the template's parameters."""
    found = stack.command("settings")

    by_name = {row["name"]: (row["value"], row["source"]) for row in found["settings"]}
    assert found["problems"] == []
    assert {name: by_name[name] for name in SECONDS} == {
        name: (str(value), "override") for name, value in SECONDS.items()
    }
    assert by_name["sweep_page"] == ("200", "default")
    assert by_name["allow_loopback"] == ("true", "override")
    assert by_name["Pace"] == ("test", "parameter")


def test_a_function_runs_with_the_overrides(stack: LocalStack) -> None:
    """A lease of more than max_lease_seconds is not valid."""
    longest = int(str(SECONDS["max_lease_seconds"]))

    assert stack.call("POST", "/leases", {"ttl_seconds": longest + 1})[0] == 422


@pytest.mark.parametrize("text", ["sweep_pages=100", "sweep_page=many", "sweep_page=1;owner_quota=2"])
def test_an_update_with_a_wrong_override_is_refused(stack: LocalStack, text: str) -> None:
    """By the pattern of the parameter: no function ever sees it."""
    (described,) = stack.clients("cloudformation").describe_stacks(StackName=STACK_NAME)["Stacks"]
    kept = [one["ParameterKey"] for one in described["Parameters"] if one["ParameterKey"] != "Overrides"]
    parameters = [{"ParameterKey": name, "UsePreviousValue": True} for name in kept]

    with pytest.raises(ClientError, match="Overrides"):
        stack.clients("cloudformation").update_stack(
            StackName=STACK_NAME,
            UsePreviousTemplate=True,
            Capabilities=["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"],
            Parameters=[*parameters, {"ParameterKey": "Overrides", "ParameterValue": text}],
        )
