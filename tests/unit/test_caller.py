"""Who asks: from the request context alone, one name for one identity."""

from __future__ import annotations

from typing import Any

import pytest
from proxypool import caller
from proxypool.errors import Forbidden, Unidentified


@pytest.mark.parametrize(
    ("context", "owner"),
    [
        ({"authorizer": {"iam": {"userId": "AROAEXAMPLE:session-1"}}}, "AROAEXAMPLE"),
        ({"authorizer": {"jwt": {"claims": {"sub": "team-a"}}}}, "team-a"),
        ({"authorizer": {"jwt": {"claims": {"sub": "auth0|7"}}}}, "auth0=7C7"),  # would leave its place in a record
        ({"authorizer": {"jwt": {"claims": {"sub": "auth0=7C7"}}}}, "auth0=3D7C7"),
        ({"authorizer": {"jwt": {"claims": {"sub": "a}\nü"}}}}, "a=7D=0A=C3=BC"),
    ],
)
def test_the_owner_comes_from_the_request_context(context: dict[str, Any], owner: str) -> None:
    """Inputs 61 and 63: a header or body cannot name another owner, and no name leaves its place in a key."""
    event = {"requestContext": context, "headers": {"x-proxypool-owner": "other"}, "body": '{"owner":"other"}'}
    assert caller.owner(event, local=False) == owner


@pytest.mark.parametrize(
    "subject", ["AROAEXAMPLEEXAMPLE12345", "AIDACKCEVSQ6C2EXAMPLE", "123456789012", "", "x" * 129, "ü" * 40, None]
)
@pytest.mark.parametrize("local", [True, False])
def test_a_token_names_no_identity_of_the_account(subject: str | None, local: bool) -> None:
    """Input 61: an issuer's user is never a role, an IAM user or the account's root, nor whom a header names."""
    context = {"accountId": "123456789012", "authorizer": {"jwt": {"claims": {"sub": subject}, "scopes": None}}}

    with pytest.raises(Unidentified):
        caller.owner({"requestContext": context, "headers": {"x-proxypool-owner": "me"}}, local=local)


def test_nobody_is_nobody_on_aws_and_local_on_a_laptop() -> None:
    with pytest.raises(Unidentified):
        caller.owner({"headers": {"x-proxypool-owner": "me"}}, local=False)
    assert caller.owner({}, local=True) == "local"
    assert caller.owner({"headers": {"x-proxypool-owner": "me"}}, local=True) == "me"


@pytest.mark.parametrize(
    ("authorizer", "may"),
    [
        ({"iam": {"userId": "A:b"}}, True),  # the caller's policy has decided
        ({"jwt": {"claims": {"sub": "a", "scope": "read admin"}}}, True),
        ({"jwt": {"claims": {"sub": "a"}, "scopes": ["admin"]}}, True),
        (
            {"jwt": {"claims": {"sub": "a", "scp": "[read admin]"}, "scopes": None}},
            True,
        ),  # a list, as the gateway shows it
        ({"jwt": {"claims": {"sub": "a", "scope": "administrator"}}}, False),
        ({"jwt": {"claims": {"sub": "a"}}}, False),
    ],
)
def test_a_token_needs_the_scope(authorizer: dict[str, Any], may: bool) -> None:
    """Input 61."""
    event = {"requestContext": {"authorizer": authorizer}}
    if may:
        caller.require_scope(event, "admin")
    else:
        with pytest.raises(Forbidden):
            caller.require_scope(event, "admin")
