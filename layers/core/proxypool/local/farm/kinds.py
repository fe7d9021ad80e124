"""The kinds of proxies of the farm, the correct result of a check of each kind, and the seeded plan of a farm. Pure."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import Enum, auto
from typing import Any

USER, PASSWORD = "farmer", "s3cret"
COUNTRIES = ("de", "fr", "gb", "jp", "nl", "us")
NET = 64  # the farm's addresses: from 127.64.0.1 on, which other programs rarely use
PER_NET = 250  # .1 to .250
FURTHER_NETS = (96, 112)  # the further exits of a rotating proxy: 127.96.x.y and 127.112.x.y
LEAKS = (
    "X-Forwarded-For: {ip}", "Forwarded: for={ip};proto=http", "Via: 1.1 {ip}", "X-Real-IP: {ip}", "Client-IP: {ip}",
    "X-Client-IP: {ip}", "True-Client-IP: {ip}", "CF-Connecting-IP: {ip}", "X-Originating-IP: {ip}", "From: me@[{ip}]",
    "X-Forwarded-Host: {ip}:8080", "X-Harmless: a,{ip},b",
)  # fmt: skip
"""Headers that reveal the client's address: each leaking proxy of a plan uses the next one."""
DEFAULT_MIX = {"fast": 10, "slow": 3, "dead": 2, "silent": 1, "leaking": 2, "tampering": 1, "password": 2,
               "nopassword": 1}  # fmt: skip
DEFAULT_SLOW = (0.3, 1.2)  # seconds


class Act(Enum):
    """What a proxy does with a request."""

    FORWARD = auto()
    VIA = auto()  # forwards, with a Via header
    LEAK = auto()  # forwards, with the client's address in a header
    INJECT = auto()  # appends to the body, with a correct Content-Length
    AWARE = auto()  # forwards requests with a nonce (to the judge), injects into other responses
    STALE = auto()  # sends another nonce: the judge's response is signed, but for another request
    LENGTHEN = auto()  # forwards, with a Content-Length that is too high by one
    SHORTEN = auto()  # … too low by one
    SMUGGLE = auto()  # forwards, with a second, contradicting framing
    FORGE = auto()  # responds like the judge, with another exit IP and an invalid signature
    REDIRECT = auto()
    CAPTIVE = auto()  # responds to all requests with its own page
    GARBAGE = auto()  # responds with bytes that are not HTTP
    DRIP = auto()  # a byte every quarter of a second
    FLOOD = auto()  # a body without end
    HALF_CLOSE = auto()  # reads the request, closes its own direction only
    REFUSE = auto()  # 403
    INTERCEPT = auto()  # terminates TLS with its own certificate
    GARBAGE_AFTER = auto()  # opens the tunnel and sends bytes first


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """The correct result of a check; None: it cannot be determined.

    `reason` is why the proxy is dead, or what an active one does wrong.
    """

    status: str
    anonymity: str | None = None
    reason: str | None = None
    https: bool | None = None
    tampered: bool = False


def _active(anonymity: str = "elite", *, https: bool = True, reason: str | None = None) -> Truth:
    return Truth(status="active", anonymity=anonymity, https=https, reason=reason)


def _dead(reason: str) -> Truth:
    return Truth(status="dead", reason=reason)


TAMPERED = Truth(status="active", reason="tampered", tampered=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class FarmKind:
    """One kind of proxy. A new kind is one line in KINDS, and for a new behavior a member of Act and a branch in connection.py."""

    name: str
    truth: Truth
    listed_as: str = "http"  # the protocol in the list
    speaks: str = ""  # its actual protocol, if the list is wrong
    act: Act = Act.FORWARD  # on plain requests
    tunnel_act: Act = Act.FORWARD  # on CONNECT
    listens: bool = True
    responds: bool = True
    slow: bool = False
    asks_password: bool = False
    listed_with_password: bool = False
    ipv6: bool = False
    exits: int = 1

    @property
    def protocol(self) -> str:
        """Its actual protocol."""
        return self.speaks or self.listed_as


def _everywhere(name: str, reason: str, act: Act) -> FarmKind:
    """A kind that acts the same on plain requests and CONNECT."""
    return FarmKind(name=name, truth=_dead(reason), act=act, tunnel_act=act)


KINDS = {
    kind.name: kind
    for kind in (
        FarmKind(name="fast", truth=_active()),
        FarmKind(name="slow", truth=_active(), slow=True),
        FarmKind(name="anonymous", truth=_active("anonymous"), act=Act.VIA),
        FarmKind(name="leaking", truth=_active("transparent"), act=Act.LEAK),
        FarmKind(name="rotating", truth=_active(), exits=3),
        FarmKind(name="ipv6", truth=_active(), ipv6=True),
        FarmKind(name="password", truth=_active(), asks_password=True, listed_with_password=True),
        FarmKind(name="nopassword", truth=_dead("credentials_refused"), asks_password=True),
        FarmKind(name="https", truth=_active(), listed_as="https"),
        FarmKind(name="socks4", truth=_active(), listed_as="socks4"),
        FarmKind(name="socks5", truth=_active(), listed_as="socks5"),
        FarmKind(name="socks5-password", truth=_active(), listed_as="socks5", asks_password=True,
                 listed_with_password=True),
        FarmKind(name="socks5-nopassword", truth=_dead("credentials_refused"), listed_as="socks5", asks_password=True),
        FarmKind(name="misfiled", truth=_dead("other_protocol"), speaks="socks5"),
        FarmKind(name="dead", truth=_dead("connection_refused"), listens=False),
        FarmKind(name="silent", truth=_dead("timeout"), responds=False),
        FarmKind(name="tampering", truth=TAMPERED, act=Act.INJECT),
        FarmKind(name="judge-aware", truth=TAMPERED, act=Act.AWARE),
        FarmKind(name="liar", truth=_dead("forged"), act=Act.FORGE),
        FarmKind(name="replayer", truth=_dead("replayed"), act=Act.STALE),
        _everywhere("redirector", "unexpected_redirect", Act.REDIRECT),
        _everywhere("captive", "content_mismatch", Act.CAPTIVE),
        _everywhere("babbler", "protocol_error", Act.GARBAGE),
        _everywhere("drip", "timeout", Act.DRIP),
        _everywhere("half-close", "connection_closed", Act.HALF_CLOSE),
        FarmKind(name="endless", truth=_dead("too_large"), act=Act.FLOOD),
        FarmKind(name="too-long", truth=_dead("protocol_error"), act=Act.LENGTHEN),
        FarmKind(name="too-short", truth=_dead("protocol_error"), act=Act.SHORTEN),
        FarmKind(name="smuggler", truth=_dead("protocol_error"), act=Act.SMUGGLE),
        FarmKind(name="plain-only", truth=_active(https=False, reason="connect_refused"), tunnel_act=Act.REFUSE),
        FarmKind(name="babbling-tunnel", truth=_active(https=False, reason="protocol_error"),
                 tunnel_act=Act.GARBAGE_AFTER),
        FarmKind(name="interceptor", truth=_active(https=False, reason="tls_intercept"), tunnel_act=Act.INTERCEPT),
    )
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """One planned proxy: the judge sees `exit_ip`; it waits `delay_seconds` before it connects.

    `leak` is the header in which a leaking proxy reveals the client's address.
    """

    kind: FarmKind
    exit_ip: str
    country: str
    delay_seconds: float = 0.0
    leak: str = LEAKS[0]

    @property
    def exit_ips(self) -> list[str]:
        """All exit IPs, used in turn; the first is `exit_ip`."""
        rest = self.exit_ip.split(".", 2)[2]
        return [self.exit_ip, *(f"127.{net}.{rest}" for net in FURTHER_NETS[: self.kind.exits - 1])]

    @property
    def credentials(self) -> tuple[str, str] | None:
        """User and password in the list."""
        return (USER, PASSWORD) if self.kind.listed_with_password else None

    def line(self, host: str, port: int) -> str:
        """This proxy as a line of a list."""
        user = ":".join(self.credentials) + "@" if self.credentials else ""
        return f"{self.kind.listed_as}://{user}{f'[{host}]' if ':' in host else host}:{port}"

    def entry(self, host: str, port: int) -> dict[str, Any]:
        """This proxy as an entry of the manifest, with the correct check result as `truth`."""
        user, password = self.credentials or (None, None)
        truth = asdict(self.kind.truth) | {"protocol": self.kind.protocol, "exit_ips": self.exit_ips}
        return {"line": self.line(host, port), "protocol": self.kind.listed_as, "host": host, "port": port,
                "user": user, "password": password, "kind": self.kind.name, "exit_ip": self.exit_ip,
                "country": self.country, "delay_seconds": self.delay_seconds, "truth": truth}  # fmt: skip


def plan(
    count: int, mix: Mapping[str, float], seed: int, slow_seconds: tuple[float, float] = DEFAULT_SLOW
) -> list[Spec]:
    """`count` proxies with the mix's exact shares (rounded), shuffled by the seed. Raises KeyError for unknown kinds."""
    rng = random.Random(seed)  # noqa: S311 - plans must be repeatable
    names = list(_shares(count, mix))
    rng.shuffle(names)
    leaking = 0
    specs = []
    for index, name in enumerate(names):
        kind = KINDS[name]
        leaking += kind.act is Act.LEAK
        specs.append(
            Spec(
                kind=kind,
                exit_ip=f"127.{NET + index // (PER_NET * 256)}.{index // PER_NET % 256}.{index % PER_NET + 1}",
                country=rng.choice(COUNTRIES),
                delay_seconds=round(rng.uniform(*slow_seconds), 3) if kind.slow else 0.0,
                leak=LEAKS[(leaking - 1) % len(LEAKS)],
            )
        )
    return specs


def _shares(count: int, mix: Mapping[str, float]) -> Iterator[str]:
    """Each kind's name as often as its share: the running sums are rounded, so that the counts add up."""
    total, weights, done = sum(mix.values()), 0.0, 0
    for name, weight in mix.items():
        weights += weight
        end = round(count * weights / total)
        yield from [name] * (end - done)
        done = end


def read_mix(text: str) -> dict[str, float]:
    """The mix of `fast=5,dead=2`, or of `all` (equal shares of all kinds); raises ValueError for an unknown kind or weight."""
    if text == "all":
        return dict.fromkeys(KINDS, 1.0)
    mix = {name: float(weight) for name, _, weight in (part.partition("=") for part in text.split(","))}
    if unknown := mix.keys() - KINDS.keys():
        raise ValueError(f"unknown kind: {', '.join(sorted(unknown))}; the kinds are {', '.join(KINDS)}")
    return mix
