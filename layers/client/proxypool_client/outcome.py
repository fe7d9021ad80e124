"""What a request through a leased proxy came to. Standard library only: the lease function knows the same words from here."""

from __future__ import annotations

from enum import StrEnum


class Outcome(StrEnum):
    """What a holder found, as a release or a report takes it."""

    OK = "ok"
    BLOCKED = "blocked"
    CAPTCHA = "captcha"
    RATE_LIMITED = "rate_limited"
    TIMEOUT = "timeout"
    PROXY_ERROR = "proxy_error"
    CREDENTIALS = "credentials"
    TARGET_ERROR = "target_error"
    SERVER_ERROR = "server_error"
