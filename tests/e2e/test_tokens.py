"""The API for callers with a token on a local stack: the gateway verifies the token, its subject is the owner."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from proxypool_client import NotAllowed, Pool

from tests.support.stack import LocalStack, wait_until
from tests.support.tokens import Issuer

pytestmark = [pytest.mark.xdist_group("stack"), pytest.mark.timeout(300)]


def send(stack: LocalStack, token: str, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    """One request to the API for tokens, with a header that names another owner."""
    headers = {"authorization": f"Bearer {token}"} if token else {}
    return stack.call(method, path, body, url=stack.tokens_url, **headers, x_proxypool_owner="local")


def leased(stack: LocalStack, token: str) -> dict[str, Any]:
    """A lease, once those of earlier tests have ended."""

    def take() -> Any:
        status, lease = send(stack, token, "POST", "/leases", {"ttl_seconds": 30})
        return status == 201 and lease

    return dict(wait_until(take))


def test_two_users_lease_with_their_tokens_and_do_not_see_each_others_leases(stack: LocalStack, issuer: Issuer) -> None:
    """I3, input 61."""
    tokens = {owner: issuer.token(owner) for owner in ("ann", "bob")}
    leases = {owner: leased(stack, token) for owner, token in tokens.items()}

    for owner, other in (("ann", "bob"), ("bob", "ann")):
        assert [one["id"] for one in send(stack, tokens[owner], "GET", "/leases")[1]["leases"]] == [leases[owner]["id"]]
        assert send(stack, tokens[other], "DELETE", f"/leases/{leases[owner]['id']}")[0] == 404
    assert not {one["id"] for one in leases.values()} & {one["id"] for one in stack.call("GET", "/leases")[1]["leases"]}
    for owner, token in tokens.items():
        assert send(stack, token, "DELETE", f"/leases/{leases[owner]['id']}")[0] == 204


def test_a_missing_or_invalid_token_is_rejected(stack: LocalStack, issuer: Issuer) -> None:
    """Input 61: none, another audience, another issuer, expired, a changed subject."""
    head, body, signature = issuer.token("ann").split(".")
    forged = json.loads(base64.urlsafe_b64decode(body + "==")) | {"sub": "bob"}
    changed = base64.urlsafe_b64encode(json.dumps(forged).encode()).rstrip(b"=").decode()
    bad = ["", issuer.token("ann", aud="another"), issuer.token("ann", iss="https://login.example.com"),
           issuer.token("ann", exp=1_700_000_000), f"{head}.{changed}.{signature}"]  # fmt: skip

    assert [send(stack, token, "GET", "/leases")[0] for token in bad] == [401] * len(bad)
    assert send(stack, issuer.token("ann"), "GET", "/leases") == (200, {"leases": []})


def test_the_scope_gives_access_to_the_operators_routes(stack: LocalStack, issuer: Issuer) -> None:
    """Input 61."""
    assert send(stack, issuer.token("ann"), "GET", "/sources")[0] == 403
    assert send(stack, issuer.token("root", scope="admin"), "GET", "/sources")[0] == 200


def test_the_client_sends_the_token_of_its_environment(
    stack: LocalStack, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For workers without an AWS identity."""
    monkeypatch.setenv("PROXYPOOL_TOKEN", issuer.token("ann"))
    with Pool(stack.tokens_url) as pool, pool.lease(wait_seconds=60) as lease:
        assert [one.id for one in pool.list()] == [lease.id]

    monkeypatch.setenv("PROXYPOOL_TOKEN", "a.b.c")
    with Pool(stack.tokens_url) as pool, pytest.raises(NotAllowed):
        pool.list()
