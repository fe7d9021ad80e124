"""Who asks: from the request context alone, one name for one identity."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
from proxypool.errors import Forbidden, Unidentified
from proxypool.http import caller
from proxypool.http.caller import Right


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
    assert caller.identify(event, local=False).owner == owner


@pytest.mark.parametrize(
    "subject", ["AROAEXAMPLEEXAMPLE12345", "AIDACKCEVSQ6C2EXAMPLE", "123456789012", "", "x" * 129, "ü" * 40, None]
)
@pytest.mark.parametrize("local", [True, False])
def test_a_token_names_no_identity_of_the_account(subject: str | None, local: bool) -> None:
    """Input 61: an issuer's user is never a role, an IAM user or the account's root, nor whom a header names."""
    context = {"accountId": "123456789012", "authorizer": {"jwt": {"claims": {"sub": subject}, "scopes": None}}}

    with pytest.raises(Unidentified):
        caller.identify({"requestContext": context, "headers": {"x-proxypool-owner": "me"}}, local=local)


def test_nobody_is_nobody_on_aws_and_local_on_a_laptop() -> None:
    with pytest.raises(Unidentified):
        caller.identify({"headers": {"x-proxypool-owner": "me"}}, local=False)
    assert caller.identify({}, local=True).owner == "local"
    assert caller.identify({"headers": {"x-proxypool-owner": "me"}}, local=True).owner == "me"


@pytest.mark.parametrize(
    ("authorizer", "scopes"),
    [
        ({"iam": {"userId": "A:b"}}, None),
        ({"jwt": {"claims": {"sub": "a", "scope": "read admin"}}}, {"read", "admin"}),
        ({"jwt": {"claims": {"sub": "a"}, "scopes": ["admin"]}}, {"admin"}),
        ({"jwt": {"claims": {"sub": "a", "scp": "[read admin]"}, "scopes": None}}, {"read", "admin"}),  # a list
        ({"jwt": {"claims": {"sub": "a"}}}, set()),
        ({"iam": {"userId": "A:b"}, "jwt": {"claims": {"scope": "read"}}}, {"read"}),  # a token never widens to all
    ],
)
def test_the_scopes_are_those_of_the_token(authorizer: dict[str, Any], scopes: set[str] | None) -> None:
    """Input 61: wherever the issuer writes them; without a token there are none to ask for."""
    assert caller.identify({"requestContext": {"authorizer": authorizer}}, local=False).scopes == scopes


@pytest.mark.parametrize(
    ("scopes", "right", "is_allowed"),
    [
        (None, Right.OPERATOR, True),  # the caller's IAM policy decides
        (["admin"], Right.OPERATOR, True),
        (["administrator"], Right.OPERATOR, False),
        ([], Right.OPERATOR, False),
        ([], Right.USER, True),
        (["admin"], None, False),  # a right that nobody has heard of
        (None, "operator", False),
    ],
)
def test_a_right_is_refused_unless_it_is_held(scopes: list[str] | None, right: Any, is_allowed: bool) -> None:
    """Input 61: denied by default."""
    found = caller.Caller(owner="a", scopes=None if scopes is None else frozenset(scopes), is_local=False)

    with nullcontext() if is_allowed else pytest.raises(Forbidden):
        found.require(right, admin_scope="admin")


@pytest.mark.parametrize(
    ("owner", "worker", "is_allowed"), [("AROAW", "AROAW", True), ("AROAX", "AROAW", False), ("", "", False)]
)
def test_only_the_worker_acts_for_another_owner(owner: str, worker: str, is_allowed: bool) -> None:
    """Input 61."""
    found = caller.Caller(owner=owner, scopes=None, is_local=False)

    with nullcontext() if is_allowed else pytest.raises(Forbidden):
        acting = caller.on_behalf({"headers": {"x-on-behalf-of": "ann"}}, found, worker_role_id=worker)
        assert acting.owner == "ann"
