"""Who calls: one `Caller` per request, from what API Gateway says about the request. Standard library only."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, NamedTuple

from proxypool.errors import Forbidden, Unidentified
from proxypool.http import web

OWNER_HEADER: Final = "x-proxypool-owner"
ON_BEHALF_HEADER: Final = "x-on-behalf-of"  # the owner for whom the worker's role leases
OWNER: Final = re.compile(r"[A-Za-z0-9_.:@=+,/-]{1,128}")
"""What an owner's name can be: it is part of keys and records."""
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_.:@+,/-]")  # of a subject; "=" begins an escape
_IAM_ID: Final = re.compile("A[A-Z]{3}[A-Z0-9]{12,}")  # how IAM names users and roles


class Right(Enum):
    """What a route requires of its caller beside an identity."""

    USER = "user"  # nothing more
    OPERATOR = "operator"  # a token needs the deployment's admin scope; with IAM, the caller's policy decides


class Caller(NamedTuple):
    """The identity behind one request."""

    owner: str
    scopes: frozenset[str] | None  # of the token; None without a token: the caller's IAM policy has decided already
    is_local: bool  # accepted without an authorizer, by the stack on a developer's machine

    def require(self, right: Right, *, admin_scope: str) -> None:
        """Raises Forbidden unless the caller has the right. A right that is not listed here is refused."""
        if right is Right.USER:
            return
        if right is Right.OPERATOR and (self.scopes is None or admin_scope in self.scopes):
            return
        raise Forbidden(f"the scope {admin_scope} is needed")


def identify(event: web.Event, *, local: bool) -> Caller:
    """The caller. On AWS from the request context only: the IAM role's id, else the token's subject; raises Unidentified.

    Characters of a subject that an owner's name cannot hold are escaped as hexadecimal ("auth0|7" is "auth0=7C7"), so two
    subjects never become one owner. A subject in the form of an IAM id is refused: an issuer names its own users only.
    `local`: the stack on a developer's machine has no authorizer; there the header X-Proxypool-Owner names the owner,
    default "local".
    """
    context = event.get("requestContext") or {}
    authorizer = context.get("authorizer") or {}
    iam, jwt = authorizer.get("iam") or {}, authorizer.get("jwt")
    name, is_local = str(iam.get("userId") or "").partition(":")[0], False
    if not name and jwt is not None:
        name = _UNSAFE.sub(_escaped, str((jwt.get("claims") or {}).get("sub") or ""))
        if _IAM_ID.fullmatch(name) or name == context.get("accountId"):  # the latter is the account's root
            raise Unidentified()
    elif not name and local:
        name, is_local = web.header(event, OWNER_HEADER) or "local", True
    if not OWNER.fullmatch(name):
        raise Unidentified()
    return Caller(owner=name, scopes=None if jwt is None else _scopes(jwt), is_local=is_local)


def on_behalf(event: web.Event, caller: Caller, *, worker_role_id: str) -> Caller:
    """The caller, or the owner that it acts for: only the worker's role may name one. Raises Forbidden."""
    other = web.header(event, ON_BEHALF_HEADER)
    if other is None:
        return caller
    if not worker_role_id or caller.owner != worker_role_id or not OWNER.fullmatch(other):
        raise Forbidden()
    return caller._replace(owner=other)


def _scopes(jwt: Mapping[str, Any]) -> frozenset[str]:
    """Issuers write scopes as `scope` or `scp`, a text or a list; the gateway passes a list on as "[a b]"."""
    claims = jwt.get("claims") or {}
    return frozenset(
        [*(jwt.get("scopes") or ()), *str(claims.get("scope") or claims.get("scp") or "").strip("[]").split()]
    )


def _escaped(found: re.Match[str]) -> str:
    return "".join(f"={byte:02X}" for byte in found[0].encode("utf-8", "surrogatepass"))
