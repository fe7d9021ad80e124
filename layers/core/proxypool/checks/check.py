"""A check: the result of one probe of one proxy. An expected failure is data, with the one to blame for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from proxypool.proxies.proxy import Anonymity


class Verdict(StrEnum):
    """What a check says about the proxy; an inconclusive one says nothing."""

    PASSED = "passed"
    FAILED = "failed"
    INCONCLUSIVE = "inconclusive"


class Blame(StrEnum):
    """Whose fault a failure is; only the first two touch the proxy."""

    PROXY = "proxy"
    CREDENTIALS = "credentials"
    TARGET = "target"
    JUDGE = "judge"
    OURS = "ours"


class Reason(StrEnum):
    """Why a check did not pass, or what it found on the way."""

    NO_ROUTE = "no_route"
    UNSUPPORTED = "unsupported"  # the protocol has no words for such a target
    ADDRESS_REFUSED = "address_refused"
    REFUSED = "connection_refused"
    CLOSED = "connection_closed"
    PROTOCOL = "protocol_error"
    TOO_LARGE = "too_large"
    TIMEOUT = "timeout"
    TLS_INTERCEPT = "tls_intercept"
    TLS_FAILED = "tls_failed"
    CREDENTIALS = "credentials_refused"
    REDIRECT = "unexpected_redirect"
    CONNECT_REFUSED = "connect_refused"  # the proxy was asked for a tunnel and said no
    BAD_STATUS = "bad_status"
    CONTENT_MISMATCH = "content_mismatch"
    NONCE_MISSING = "nonce_missing"
    FORGED = "forged"
    REPLAYED = "replayed"
    UNSIGNED = "unsigned"
    TAMPERED = "tampered"
    LOOP = "loop"  # the exit is our own address, or none of the public network
    JUDGE_DOWN = "judge_down"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One probe's result. `timings_ms` has one entry per stage that ended; `latency_ms` is of the plain request."""

    proxy_id: str
    checked_at: datetime
    verdict: Verdict
    reason: Reason | None = None
    blame: Blame | None = None
    timings_ms: dict[str, float] = field(default_factory=dict)
    latency_ms: float | None = None
    exit_ip: str | None = None
    country: str | None = None
    anonymity: Anonymity | None = None
    https: bool = False
    signed: bool = False
    tampered: bool = False
