"""A check: the result of one probe of one proxy. An expected failure is data, with the party to blame."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from proxypool.proxies.proxy import Anonymity, Protocol


class Verdict(StrEnum):
    """Result of a check; INCONCLUSIVE leaves the proxy's status and score unchanged."""

    PASSED = "passed"
    FAILED = "failed"
    INCONCLUSIVE = "inconclusive"


class Blame(StrEnum):
    """The party at fault for a failure; only PROXY and CREDENTIALS affect the proxy."""

    PROXY = "proxy"
    CREDENTIALS = "credentials"
    TARGET = "target"
    JUDGE = "judge"
    POOL = "ours"


class JudgeKind(StrEnum):
    """Kind of judge behind an anonymity level: each sees different headers."""

    CLOUDFRONT = (
        "cloudfront"  # the pool's judge behind CloudFront, which strips some headers (X-Real-IP, Proxy-Connection, …)
    )
    RAW = "raw"  # the pool's judge on its own host: sees every byte
    ECHO = "echo"  # a third-party echo service: answers are unsigned


class TargetVerdict(StrEnum):
    """Result of a target rule for one proxy; it concerns this target only."""

    OK = "ok"
    BANNED = "banned"  # the target's answer does not match the rule
    FAILED = "failed"  # no answer, or a server error


class Reason(StrEnum):
    """Why a check failed, or the first failure in a check that passed."""

    NO_ROUTE = "no_route"
    UNSUPPORTED = "unsupported"  # the proxy protocol cannot address such a target
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
    CONNECT_REFUSED = "connect_refused"  # the proxy refused to open a tunnel
    BAD_STATUS = "bad_status"
    CONTENT_MISMATCH = "content_mismatch"
    NONCE_MISSING = "nonce_missing"
    FORGED = "forged"
    REPLAYED = "replayed"
    UNSIGNED = "unsigned"
    TAMPERED = "tampered"
    LOOP = "loop"  # the exit IP is our own address or not public
    JUDGE_DOWN = "judge_down"
    OTHER_PROTOCOL = "other_protocol"  # works, but with another protocol than listed


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Result of one probe.

    `timings_ms` has one entry per finished stage; `latency_ms` is the duration of the plain HTTP request, None if the
    check did not pass.
    """

    proxy_id: str
    checked_at: datetime
    verdict: Verdict
    reason: Reason | None = None
    blame: Blame | None = None
    timings_ms: dict[str, float] = field(default_factory=dict)
    latency_ms: float | None = None
    exits: tuple[str, ...] = ()  # all observed exit IPs, the current one last
    country: str | None = None
    region: str | None = None
    asn: int | None = None
    anonymity: Anonymity | None = None
    basis: JudgeKind | None = None
    https: bool | None = None  # None: not checked this time
    signed: bool = False
    tampered: bool = False
    targets: dict[str, TargetVerdict] = field(default_factory=dict)  # by host
    detected_protocol: Protocol | None = None  # with OTHER_PROTOCOL: the one that works
    full: bool = True  # False: HTTPS, integrity and targets were skipped
    frozen: bool = False  # recorded during a freeze, without effect on the proxy

    @property
    def exit_ip(self) -> str | None:
        """The current exit IP: that of the HTTPS request if there was one. None if unknown."""
        return self.exits[-1] if self.exits else None
