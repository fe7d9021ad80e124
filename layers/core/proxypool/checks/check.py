"""A check: the result of one probe of one proxy. An expected failure is data, with the one to blame for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from proxypool.proxies.proxy import Anonymity, Protocol


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


class Basis(StrEnum):
    """Which judge the anonymity rests on: each sees other headers."""

    CLOUDFRONT = "cloudfront"  # ours behind CloudFront, which strips some headers (X-Real-IP, Proxy-Connection, …)
    RAW = "raw"  # ours on a host of its own: sees each byte
    ECHO = "echo"  # somebody else's echo service: nothing is signed


class TargetVerdict(StrEnum):
    """What a target rule found for one proxy; it says nothing of the proxy anywhere else."""

    OK = "ok"
    BANNED = "banned"  # the target answered, and not as it answers those whom it serves
    FAILED = "failed"  # no answer of the target came through


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
    OTHER_PROTOCOL = "other_protocol"  # it works, but speaks another protocol than its list says


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
    exits: tuple[str, ...] = ()  # every exit address that was seen, the one that counts last
    country: str | None = None
    region: str | None = None
    asn: int | None = None
    anonymity: Anonymity | None = None
    basis: Basis | None = None
    https: bool | None = None  # None: not asked this time
    signed: bool = False
    tampered: bool = False
    targets: dict[str, TargetVerdict] = field(default_factory=dict)  # by host
    spoken: Protocol | None = None  # with OTHER_PROTOCOL: the one that works
    full: bool = True  # False: HTTPS, integrity and targets were left out
    frozen: bool = False  # recorded, and without effect on the proxy

    @property
    def exit_ip(self) -> str | None:
        """The exit address that counts: of the HTTPS leg where there was one."""
        return self.exits[-1] if self.exits else None
