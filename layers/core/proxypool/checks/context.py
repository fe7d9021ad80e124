"""What all checks of a batch share: the judge's places and key, one TLS context, our own addresses, the limits."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from proxypool.checks.check import Reason
from proxypool.checks.judge import Seen
from proxypool.errors import ProxyPoolError
from proxypool.network.address import Url
from proxypool.network.tunnel import Hop, Login, Wire
from proxypool.proxies.proxy import Anonymity, Proxy

AGENT: Final = "proxypool-check/1"


class StageFailed(ProxyPoolError):
    """A checker's question was answered with no; `reason` says why."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.value)
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the judge is: scheme, host and port of its URL."""

    scheme: str
    host: str
    port: int

    @property
    def authority(self) -> str:
        """host:port, as CONNECT and Host want it."""
        return f"{self.host}:{self.port}"

    def url(self, target: str) -> Url:
        """The URL of a path and query there."""
        return Url(scheme=self.scheme, host=self.host, port=self.port, target=target)


def place(url: str) -> Place:
    """The place of a judge's URL; raises ValueError where it is none."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("the judge's URL is not http(s)://host[:port]/")
    return Place(scheme=parts.scheme, host=parts.hostname, port=parts.port or (443 if parts.scheme == "https" else 80))


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """The shared part of a batch's checks; `own` and `direct` come from asking the judge directly."""

    judge: Place
    judge_https: Place | None
    key: bytes | None
    tls: ssl.SSLContext
    allow_loopback: bool = False
    connect_seconds: float = 5.0
    stage_seconds: float = 20.0
    total_seconds: float = 40.0
    own: frozenset[str] = frozenset()
    direct: frozenset[tuple[str, str]] = frozenset()


@dataclass(slots=True)
class Probe:
    """One proxy under check: what earlier stages found is there for the later ones."""

    proxy: Proxy
    bench: Bench
    address: tuple[str, int] | None = None
    wire: Wire | None = None  # opened by `reachable`, used by `http`
    seen: Seen | None = None
    anonymity: Anonymity | None = None
    https: bool = False
    tampered: bool = False
    timings_ms: dict[str, float] = field(default_factory=dict)

    @property
    def hop(self) -> Hop:
        """The proxy as the wire sees it."""
        proxy, login = self.proxy, None
        if proxy.username is not None:
            login = Login(username=proxy.username, password=proxy.password or "")
        return Hop(protocol=proxy.protocol.value, name=proxy.host, tls=self.bench.tls, login=login)

    def close(self) -> None:
        """Ends the connection, if one is open."""
        if self.wire is not None:
            self.wire.close()
            self.wire = None
