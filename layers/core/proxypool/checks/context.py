"""What all checks of a batch share: the judges, one TLS context, our own addresses, the rules, the limits."""

from __future__ import annotations

import secrets
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from proxypool.checks.check import Basis, Reason, TargetVerdict
from proxypool.checks.geo import Locate
from proxypool.checks.judge import Seen
from proxypool.checks.rule import Rule
from proxypool.errors import ProxyPoolError
from proxypool.network.address import Url
from proxypool.network.tunnel import Hop, Login, Wire
from proxypool.proxies.proxy import SESSION, Anonymity, Proxy

AGENT: Final = "proxypool-check/1"
_PORTS: Final = {"http": 80, "https": 443}


class StageFailed(ProxyPoolError):
    """A checker's question was answered with no; `reason` says why, `status` is the HTTP status where there was one."""

    def __init__(self, reason: Reason, *, status: int | None = None) -> None:
        super().__init__(reason.value)
        self.reason = reason
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where something is asked for: scheme, host (IPv6 without brackets) and port of its URL, and the rest of it."""

    scheme: str
    host: str
    port: int
    target: str = "/"

    def url(self, target: str) -> Url:
        """The URL of a path and query there."""
        return Url(scheme=self.scheme, host=self.host, port=self.port, target=target)


def place(url: str) -> Place:
    """The place of an operator's URL; raises ValueError where it is none."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("not http(s)://host[:port]/")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Place(scheme=parts.scheme, host=parts.hostname, port=parts.port or _PORTS[parts.scheme], target=target)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """One judge: where it is asked by http and https (None: not, or not reachable), and what it can do.

    `direct` are the headers that it sees of a request without a proxy; `has_canary` is found out by asking.
    """

    plain: Place
    secure: Place | None = None
    key: bytes | None = None
    is_echo: bool = False
    direct: frozenset[tuple[str, str]] = frozenset()
    has_canary: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Canary:
    """A page that never changes, on a host of the operator's choice: its place and the SHA-256 of its body, in hex."""

    place: Place
    digest: str


async def _trust(_: Judge) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """The shared part of a batch's checks; `judges` that answer, `own` and `is_up` come from asking them directly."""

    judges: tuple[Judge, ...]
    tls: ssl.SSLContext
    allow_loopback: bool = False
    connect_seconds: float = 5.0
    stage_seconds: float = 20.0
    total_seconds: float = 40.0
    own: frozenset[str] = frozenset()
    ours: frozenset[str] = frozenset()  # hosts and endpoints of the pool itself: no proxies
    is_up: Callable[[Judge], Awaitable[bool]] = _trust
    canaries: tuple[Canary, ...] = ()
    rules: tuple[Rule, ...] = ()
    locate: Locate | None = None
    detect: bool = False
    skip: frozenset[str] = frozenset()  # stages that are switched off


@dataclass(slots=True)
class Probe:
    """One proxy under check: what earlier stages found is there for the later ones."""

    proxy: Proxy
    bench: Bench
    judge: Judge
    full: bool = True  # False: only whether it still carries HTTP
    allow_private: bool = False  # its source says that it may stand in a private network
    session: str = field(default_factory=lambda: secrets.token_hex(8))  # at a gateway: one exit for the whole check
    address: tuple[str, int] | None = None
    wire: Wire | None = None  # opened by `reachable`, used by `http`
    seen: Seen | None = None  # by the judge, of the last leg
    exits: list[str] = field(default_factory=list)
    anonymity: Anonymity | None = None
    https: bool | None = None
    tampered: bool = False
    targets: dict[str, TargetVerdict] = field(default_factory=dict)
    timings_ms: dict[str, float] = field(default_factory=dict)

    @property
    def hop(self) -> Hop:
        """The proxy as the wire sees it."""
        proxy, login = self.proxy, None
        if proxy.username is not None:
            username, password = (
                text.replace(SESSION, self.session) for text in (proxy.username, proxy.password or "")
            )
            login = Login(username=username, password=password)
        return Hop(protocol=proxy.protocol, name=proxy.host, tls=self.bench.tls, login=login)

    @property
    def basis(self) -> Basis | None:
        """Which judge the anonymity rests on."""
        return self.seen.basis if self.seen and self.anonymity else None

    def close(self) -> None:
        """Ends the connection, if one is open."""
        if self.wire is not None:
            self.wire.close()
            self.wire = None
