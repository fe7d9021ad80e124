"""Credentials of the local stack: an access key for AWS requests, and a token in the address of the HTTP APIs.

The key is generated at each start and is also the password of Valkey. `guard` checks both; .local/stack.json (mode 0600)
contains them.
"""

from __future__ import annotations

import hmac
import secrets
from typing import Final

REGION: Final = "us-east-1"
STACK_NAME: Final = "proxypool"
API_PATH: Final = "/_aws/execute-api"  # where the emulator serves HTTP APIs
TOKEN_PREFIX: Final = "/_local/"  # noqa: S105  a path
_SECRET_KEY: Final = "local"  # noqa: S105  signatures are not checked
_KEY_BYTES: Final = 16


def new_access_key() -> str:
    """A random access key id of 32 hexadecimal digits. The emulator takes a key of twelve digits for an account id."""
    return secrets.token_hex(_KEY_BYTES)


def credentials(access_key: str) -> dict[str, str]:
    """The AWS_* variables for clients of the emulator; a session token of the caller's environment is cleared."""
    return {
        "AWS_ACCESS_KEY_ID": access_key,
        "AWS_SECRET_ACCESS_KEY": _SECRET_KEY,
        "AWS_SESSION_TOKEN": "",
        "AWS_DEFAULT_REGION": REGION,
    }


def api_token(access_key: str) -> str:
    """The token in the addresses of the HTTP APIs, 32 hexadecimal digits; the access key cannot be computed from it."""
    return hmac.digest(access_key.encode(), b"http api", "sha256").hex()[:32]


def api_base(endpoint_url: str, access_key: str) -> str:
    """The address of the HTTP APIs, without an API's id."""
    return f"{endpoint_url}{TOKEN_PREFIX}{api_token(access_key)}{API_PATH}"
