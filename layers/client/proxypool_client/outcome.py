"""The outcome of a request through a leased proxy. Standard library only: the lease function imports it, too."""

from __future__ import annotations

from enum import StrEnum


class Outcome(StrEnum):
    """The values that a release and a report accept.

    `blocked`, `captcha` and `rate_limited` concern the pair of exit and target; `timeout`, `proxy_error` and `credentials` the
    proxy; `target_error` and `server_error` the target.
    """

    OK = "ok"
    BLOCKED = "blocked"
    CAPTCHA = "captcha"
    RATE_LIMITED = "rate_limited"
    TIMEOUT = "timeout"
    PROXY_ERROR = "proxy_error"
    CREDENTIALS = "credentials"
    TARGET_ERROR = "target_error"
    SERVER_ERROR = "server_error"
