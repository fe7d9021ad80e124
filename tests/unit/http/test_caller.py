"""Identification of callers: by the request context only, one owner per identity."""

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
        ({"authorizer": {"jwt": {"claims": {"sub": "auth0|7"}}}}, "auth0=7C7"),  # a separator in records
        ({"authorizer": {"jwt": {"claims": {"sub": "auth0=7C7"}}}}, "auth0=3D7C7"),
        ({"authorizer": {"jwt": {"claims": {"sub": "a}\nü"}}}}, "a=7D=0A=C3=BC"),
    ],
)
def test_the_owner_comes_from_the_request_context(context: dict[str, Any], owner: str) -> None:
    """Inputs 61 and 63: a header or body cannot name another owner, and owner names are safe in keys."""
    event = {"requestContext": context, "headers": {"x-proxypool-owner": "other"}, "body": '{"owner":"other"}'}
    assert caller.identify(event, local=False).owner == owner


@pytest.mark.parametrize(
    "subject", ["AROAEXAMPLEEXAMPLE12345", "AIDACKCEVSQ6C2EXAMPLE", "123456789012", "", "x" * 129, "ü" * 40, None]
)
@pytest.mark.parametrize("local", [True, False])
def test_a_token_cannot_impersonate_an_iam_identity(subject: str | None, local: bool) -> None:
    """Input 61: not a role, an IAM user, the root user, or the owner in a header."""
    context = {"accountId": "123456789012", "authorizer": {"jwt": {"claims": {"sub": subject}, "scopes": None}}}

    with pytest.raises(Unidentified):
        caller.identify({"requestContext": context, "headers": {"x-proxypool-owner": "me"}}, local=local)


def test_without_an_authorizer_a_caller_is_refused_on_aws_and_accepted_locally() -> None:
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
        ({"iam": {"userId": "A:b"}, "jwt": {"claims": {"scope": "read"}}}, {"read"}),  # a token never has all scopes
    ],
)
def test_the_scopes_are_those_of_the_token(authorizer: dict[str, Any], scopes: set[str] | None) -> None:
    """Input 61: in any claim for scopes; None without a token."""
    assert caller.identify({"requestContext": {"authorizer": authorizer}}, local=False).scopes == scopes


@pytest.mark.parametrize(
    ("scopes", "right", "is_allowed"),
    [
        (None, Right.OPERATOR, True),  # the caller's IAM policy decides
        (["admin"], Right.OPERATOR, True),
        (["administrator"], Right.OPERATOR, False),
        ([], Right.OPERATOR, False),
        ([], Right.USER, True),
        (["admin"], None, False),  # an unknown right
        (None, "operator", False),
    ],
)
def test_a_right_is_denied_by_default(scopes: list[str] | None, right: Any, is_allowed: bool) -> None:
    """Input 61."""
    identity = caller.Caller(owner="a", scopes=None if scopes is None else frozenset(scopes), is_local=False)

    with nullcontext() if is_allowed else pytest.raises(Forbidden):
        identity.require(right, admin_scope="admin")


@pytest.mark.parametrize(
    ("owner", "worker", "is_allowed"), [("AROAW", "AROAW", True), ("AROAX", "AROAW", False), ("", "", False)]
)
def test_only_the_worker_can_act_on_behalf_of_an_owner(owner: str, worker: str, is_allowed: bool) -> None:
    """Input 61."""
    identity = caller.Caller(owner=owner, scopes=None, is_local=False)

    with nullcontext() if is_allowed else pytest.raises(Forbidden):
        acting = caller.on_behalf({"headers": {"x-on-behalf-of": "ann"}}, identity, worker_role_id=worker)
        assert acting.owner == "ann"
