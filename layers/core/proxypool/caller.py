"""Who asks, by what API Gateway says of the caller: a role of IAM, or a token of an issuer. Standard library only."""

from __future__ import annotations

import re
from typing import Final

from proxypool import web
from proxypool.errors import Forbidden, Unidentified

OWNER_HEADER: Final = "x-proxypool-owner"
ON_BEHALF_HEADER: Final = "x-on-behalf-of"  # the owner for whom the worker's role leases
OWNER: Final = re.compile(r"[A-Za-z0-9_.:@=+,/-]{1,128}")
"""What an owner's name can be: it stands in keys and records."""
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_.:@+,/-]")  # of a subject; "=" begins what stands for it
_IAM_ID: Final = re.compile("A[A-Z]{3}[A-Z0-9]{12,}")  # how IAM names users and roles


def owner(event: web.Event, *, local: bool) -> str:
    """Who asks. On AWS from the request context only: the IAM role's id, else the token's subject; raises Unidentified.

    Of a subject, what an owner's name cannot hold stands in hexadecimal ("auth0|7" is "auth0=7C7"): two subjects stay two.
    A subject that reads as an id of IAM is nobody's: an issuer names its own users, never a role of the account.
    `local`: the stack on a laptop has no authorizer; there the header X-Proxypool-Owner names the owner, default "local".
    """
    context = event.get("requestContext") or {}
    authorizer = context.get("authorizer") or {}
    iam, jwt = authorizer.get("iam") or {}, authorizer.get("jwt")
    name = str(iam.get("userId") or "").partition(":")[0]
    if not name and jwt is not None:
        name = _UNSAFE.sub(_escaped, str((jwt.get("claims") or {}).get("sub") or ""))
        if _IAM_ID.fullmatch(name) or name == context.get("accountId"):  # the latter is the account's root
            raise Unidentified()
    elif not name and local:
        name = web.header(event, OWNER_HEADER) or "local"
    if not OWNER.fullmatch(name):
        raise Unidentified()
    return name


def require_scope(event: web.Event, scope: str) -> None:
    """Raises Forbidden where the caller came with a token that lacks the scope. Under IAM the caller's policy has decided."""
    jwt = ((event.get("requestContext") or {}).get("authorizer") or {}).get("jwt")
    if jwt is None:
        return
    claims = jwt.get("claims") or {}
    granted = [*(jwt.get("scopes") or ()), *str(claims.get("scope") or claims.get("scp") or "").strip("[]").split()]
    if scope not in granted:
        raise Forbidden(f"the scope {scope} is needed")


def _escaped(found: re.Match[str]) -> str:
    return "".join(f"={byte:02X}" for byte in found[0].encode("utf-8", "surrogatepass"))
