"""`CheckContext`: shared state of a batch of checks. `Probe`: state of one check."""

from __future__ import annotations

import secrets
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from proxypool.checks.check import JudgeKind, Reason, TargetVerdict
from proxypool.checks.judge.answer import Observation
from proxypool.checks.probe.geo import Locate
from proxypool.checks.rules.target import TargetRule
from proxypool.errors import ProxyPoolError
from proxypool.network.address import Url
from proxypool.network.tunnel import Connection, ProxyCredentials, ProxyHop
from proxypool.proxies.proxy import SESSION_PLACEHOLDER, Anonymity, Proxy

USER_AGENT: Final = "proxypool-check/1"
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


class StageFailed(ProxyPoolError):
    """A stage of a check failed; `status` is the HTTP status if there was one."""

    def __init__(self, reason: Reason, *, status: int | None = None) -> None:
        super().__init__(reason.value)
        self.reason = reason
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Scheme, host (IPv6 without brackets), port and request target of a URL that the operator configures."""

    scheme: str
    host: str
    port: int
    target: str = "/"

    def url(self, target: str) -> Url:
        """The same endpoint with another path and query."""
        return Url(scheme=self.scheme, host=self.host, port=self.port, target=target)

    @classmethod
    def from_url(cls, url: str) -> Endpoint:
        """Parses an http or https URL; raises ValueError."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("not http(s)://host[:port]/")
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        port = parts.port or _DEFAULT_PORTS[parts.scheme]
        return cls(scheme=parts.scheme, host=parts.hostname, port=port, target=target)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """One judge: its HTTP and HTTPS endpoints (`https` is None if not configured or down) and its capabilities.

    `direct_headers` are those that it receives in a request without a proxy. They and `has_canary` are set by
    `probe_judges`.
    """

    http: Endpoint
    https: Endpoint | None = None
    key: bytes | None = None
    is_echo: bool = False
    direct_headers: frozenset[tuple[str, str]] = frozenset()
    has_canary: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryPage:
    """A page that never changes, on a host that the operator chooses, and the SHA-256 of its body in hex."""

    endpoint: Endpoint
    sha256: str


async def _assume_up(_: Judge) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckContext:
    """Shared, read-only state of a batch's checks. `probe_judges` sets `judges`, `own_addresses` and `is_judge_up`."""

    judges: tuple[Judge, ...]
    tls: ssl.SSLContext
    allow_loopback: bool = False
    connect_seconds: float = 5.0
    stage_seconds: float = 20.0
    total_seconds: float = 40.0
    own_addresses: frozenset[str] = frozenset()  # IP addresses that the judges see for the pool
    own_endpoints: frozenset[str] = frozenset()  # hosts and host:port of the pool: never checked as proxies
    is_judge_up: Callable[[Judge], Awaitable[bool]] = _assume_up
    canary_pages: tuple[CanaryPage, ...] = ()
    target_rules: tuple[TargetRule, ...] = ()
    locate: Locate | None = None
    detect_protocols: bool = False
    skipped_stages: frozenset[str] = frozenset()  # names, from the setting CheckSkip


@dataclass(slots=True)
class Probe:
    """One check in progress: the proxy, and the results of the stages so far."""

    proxy: Proxy
    context: CheckContext
    judge: Judge
    full: bool = True  # False: skip the `full_only` stages
    allow_private: bool = False  # its source permits private addresses
    # At a gateway: pins one exit IP for the whole check.
    session: str = field(default_factory=lambda: secrets.token_hex(8))
    address: tuple[str, int] | None = None
    connection: Connection | None = None  # opened by `reachable`, used by `http`
    observation: Observation | None = None  # the judge's, of the last request
    exits: list[str] = field(default_factory=list)
    anonymity: Anonymity | None = None
    https: bool | None = None
    tampered: bool = False
    targets: dict[str, TargetVerdict] = field(default_factory=dict)
    timings_ms: dict[str, float] = field(default_factory=dict)

    @property
    def hop(self) -> ProxyHop:
        """The proxy as the network layer connects to it, with `{session}` in its credentials filled in."""
        proxy, credentials = self.proxy, None
        if proxy.username is not None:
            username, password = (
                text.replace(SESSION_PLACEHOLDER, self.session) for text in (proxy.username, proxy.password or "")
            )
            credentials = ProxyCredentials(username=username, password=password)
        return ProxyHop(protocol=proxy.protocol, host=proxy.host, tls=self.context.tls, credentials=credentials)

    @property
    def basis(self) -> JudgeKind | None:
        """Kind of judge behind the anonymity level; None without one."""
        return self.observation.basis if self.observation and self.anonymity else None

    def close(self) -> None:
        """Closes the connection if one is open."""
        if self.connection is not None:
            self.connection.close()
            self.connection = None
