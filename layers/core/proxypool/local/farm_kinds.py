"""What kinds of proxies the farm grows, what the checks must find out about each, and the seeded plan. Pure."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

USER, PASSWORD = "farmer", "s3cret"
COUNTRIES = ("de", "fr", "gb", "jp", "nl", "us")
NET = 64  # the farm's addresses: 127.64.0.1 and up, far from what else listens on loopback
PER_NET = 250  # .1 to .250
DEFAULT_MIX = {"fast": 10, "slow": 3, "dead": 2, "silent": 1, "leaking": 2, "tampering": 1, "password": 2,
               "nopassword": 1}  # fmt: skip
DEFAULT_SLOW = (0.3, 1.2)  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What a check that is right says: active or dead; how anonymous when active; the failure's word when it has one."""

    status: str
    anonymity: str | None = None
    failure: str | None = None


ACTIVE = Truth(status="active")
DEAD = Truth(status="dead")


@dataclass(frozen=True, slots=True, kw_only=True)
class FarmKind:
    """One kind of proxy. A new kind is one line in KINDS, and one branch in farm.py when it acts in a new way."""

    name: str
    truth: Truth
    listens: bool = True
    answers: bool = True
    slow: bool = False
    leaks: bool = False  # tells the target the caller's address
    tampers: bool = False  # puts something into the body
    asks_password: bool = False
    listed_with_password: bool = False


KINDS = {
    kind.name: kind
    for kind in (
        FarmKind(name="fast", truth=ACTIVE),
        FarmKind(name="slow", truth=ACTIVE, slow=True),
        FarmKind(name="dead", truth=DEAD, listens=False),
        FarmKind(name="silent", truth=DEAD, answers=False),
        FarmKind(name="leaking", truth=Truth(status="active", anonymity="transparent"), leaks=True),
        FarmKind(name="tampering", truth=Truth(status="dead", failure="tampered"), tampers=True),
        FarmKind(name="password", truth=ACTIVE, asks_password=True, listed_with_password=True),
        FarmKind(name="nopassword", truth=Truth(status="dead", failure="credentials"), asks_password=True),
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """One planned proxy: `exit_ip` is what a judge sees, `delay_seconds` how long it thinks before it connects."""

    kind: FarmKind
    exit_ip: str
    country: str
    delay_seconds: float

    @property
    def credentials(self) -> tuple[str, str] | None:
        """User and password as the list gives them."""
        return (USER, PASSWORD) if self.kind.listed_with_password else None

    def line(self, host: str, port: int) -> str:
        """This proxy as a list's line."""
        user = ":".join(self.credentials) + "@" if self.credentials else ""
        return f"http://{user}{host}:{port}"

    def entry(self, host: str, port: int) -> dict[str, Any]:
        """This proxy in the manifest, its truth with it."""
        user, password = self.credentials or (None, None)
        return {"host": host, "port": port, "kind": self.kind.name, "exit_ip": self.exit_ip, "country": self.country,
                "user": user, "password": password, "truth": asdict(self.kind.truth)}  # fmt: skip


def plan(
    count: int, mix: Mapping[str, float], seed: int, slow_seconds: tuple[float, float] = DEFAULT_SLOW
) -> list[Spec]:
    """`count` proxies with the mix's exact shares (rounded), shuffled by the seed. Raises KeyError for unknown kinds."""
    chance = random.Random(seed)  # noqa: S311 - a plan that can be repeated is the aim
    names = list(_shares(count, mix))
    chance.shuffle(names)
    return [
        Spec(
            kind=KINDS[name],
            exit_ip=f"127.{NET + index // (PER_NET * 256)}.{index // PER_NET % 256}.{index % PER_NET + 1}",
            country=chance.choice(COUNTRIES),
            delay_seconds=round(chance.uniform(*slow_seconds), 3) if KINDS[name].slow else 0.0,
        )
        for index, name in enumerate(names)
    ]


def _shares(count: int, mix: Mapping[str, float]) -> Iterator[str]:
    """Each kind's name as often as its share says: cut at the rounded running sums, so the counts add up."""
    total, reached, given = sum(mix.values()), 0.0, 0
    for name, weight in mix.items():
        reached += weight
        upto = round(count * reached / total)
        yield from [name] * (upto - given)
        given = upto


def read_mix(text: str) -> dict[str, float]:
    """The mix of `fast=5,dead=2`; raises ValueError for an unknown kind or a weight that is no number."""
    mix = {name: float(weight) for name, _, weight in (part.partition("=") for part in text.split(","))}
    if unknown := mix.keys() - KINDS.keys():
        raise ValueError(f"no such kind: {', '.join(sorted(unknown))}; there are {', '.join(KINDS)}")
    return mix
