"""Identifies the caller of a request from the request context of API Gateway. Standard library only."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, NamedTuple

from proxypool.errors import Forbidden, Unidentified
from proxypool.http import web

OWNER_HEADER: Final = "x-proxypool-owner"
ON_BEHALF_HEADER: Final = "x-on-behalf-of"  # the owner on whose behalf the role of the worker leases
OWNER_PATTERN: Final = re.compile(r"[A-Za-z0-9_.:@=+,/-]{1,128}")
"""Valid owner names; they are parts of keys and records."""
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_.:@+,/-]")  # characters of a subject; "=" starts an escape
_IAM_ID: Final = re.compile("A[A-Z]{3}[A-Z0-9]{12,}")  # unique IDs of IAM users and roles


class Right(Enum):
    """The permission that a route requires of an identified caller."""

    USER = "user"  # none
    OPERATOR = "operator"  # a token needs the deployment's admin scope; with IAM, the caller's policy decides


class Caller(NamedTuple):
    """The identity behind one request."""

    owner: str
    scopes: frozenset[str] | None  # of the token; None without a token: then the IAM policy of the caller decided
    is_local: bool  # accepted without an authorizer, by the local stack

    def require(self, right: Right, *, admin_scope: str) -> None:
        """Raises Forbidden unless the caller has the right. Unknown rights are denied."""
        if right is Right.USER:
            return
        if right is Right.OPERATOR and (self.scopes is None or admin_scope in self.scopes):
            return
        raise Forbidden(f"the scope {admin_scope} is required")


def identify(event: web.Event, *, local: bool) -> Caller:
    """The caller: the IAM role ID of the request context, else the subject of the token. Raises Unidentified.

    Characters that are invalid in an owner name are escaped as hexadecimal ("auth0|7" becomes "auth0=7C7"), so two subjects
    never map to one owner. A subject in the form of an IAM ID is refused, so that an issuer cannot impersonate IAM users.
    With `local` (the local stack has no authorizer) the header X-Proxypool-Owner names the owner; default "local".
    """
    context = event.get("requestContext") or {}
    authorizer = context.get("authorizer") or {}
    iam, jwt = authorizer.get("iam") or {}, authorizer.get("jwt")
    name, is_local = str(iam.get("userId") or "").partition(":")[0], False
    if not name and jwt is not None:
        name = _UNSAFE.sub(_escaped, str((jwt.get("claims") or {}).get("sub") or ""))
        if _IAM_ID.fullmatch(name) or name == context.get("accountId"):  # the account ID is the userId of the root user
            raise Unidentified()
    elif not name and local:
        name, is_local = web.header(event, OWNER_HEADER) or "local", True
    if not OWNER_PATTERN.fullmatch(name):
        raise Unidentified()
    return Caller(owner=name, scopes=None if jwt is None else _scopes(jwt), is_local=is_local)


def on_behalf(event: web.Event, caller: Caller, *, worker_role_id: str) -> Caller:
    """The caller, or the owner in X-On-Behalf-Of; only the role of the worker may use that header. Raises Forbidden."""
    owner = web.header(event, ON_BEHALF_HEADER)
    if owner is None:
        return caller
    if not worker_role_id or caller.owner != worker_role_id or not OWNER_PATTERN.fullmatch(owner):
        raise Forbidden()
    return caller._replace(owner=owner)


def _scopes(jwt: Mapping[str, Any]) -> frozenset[str]:
    """The scopes of a token: claim `scope` or `scp`, a string or a list. API Gateway formats a list as "[a b]"."""
    claims = jwt.get("claims") or {}
    return frozenset(
        [*(jwt.get("scopes") or ()), *str(claims.get("scope") or claims.get("scp") or "").strip("[]").split()]
    )


def _escaped(match: re.Match[str]) -> str:
    return "".join(f"={byte:02X}" for byte in match[0].encode("utf-8", "surrogatepass"))
