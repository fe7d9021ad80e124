"""Asking the judges without a proxy, once per batch: who is up, what are our own addresses, which headers do they add?"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Iterable
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from proxypool.checks import judge
from proxypool.checks.canary import canary
from proxypool.checks.checkers.exit import canonical
from proxypool.checks.checkers.http import read_answer
from proxypool.checks.context import AGENT, Bench, Canary, Judge, Place, StageFailed, place
from proxypool.checks.geo import locator
from proxypool.checks.rule import Rule
from proxypool.checks.way import path
from proxypool.errors import AddressRefused, ConfigurationError
from proxypool.network import guard
from proxypool.network.address import own_hosts
from proxypool.network.deadline import Deadline
from proxypool.network.tls import client_context
from proxypool.network.tunnel import Response, Wire, WireError, get
from proxypool.settings import Settings
from proxypool.telemetry import log

NO_JUDGE: Final = "none"  # as JUDGE_URL: other people's judges alone
ASK_AGAIN_SECONDS: Final = 3.0  # how long a judge's word that it is up holds
_NO = (StageFailed, judge.Tampered, WireError, AddressRefused, TimeoutError)
_T = TypeVar("_T")


def bench(settings: Settings, key: bytes | None, rules: tuple[Rule, ...] = ()) -> Bench:
    """The shared part of a batch; its TLS context is the only one that the batch makes."""
    return Bench(
        judges=judges(settings, key), tls=client_context(settings.judge_ca_file), allow_loopback=settings.allow_loopback,
        connect_seconds=settings.check_connect_seconds, stage_seconds=settings.check_stage_seconds,
        total_seconds=settings.check_total_seconds, canaries=tuple(map(_canary, _texts(settings.canary_urls))),
        rules=rules, locate=locator(settings.geo_database) if settings.geo_database else None,
        ours=own_hosts(*(url for url in (*_texts(settings.judge_url), *_texts(settings.judge_https_url)) if url != NO_JUDGE)),
        detect=settings.detect_protocols, skip=frozenset(_texts(settings.check_skip)),
    )  # fmt: skip


def judges(settings: Settings, key: bytes | None) -> tuple[Judge, ...]:
    """Our judges, each with the HTTPS one that stands at the same place of its list, and other people's; at least one."""
    plain = [place(url) for url in _texts(settings.judge_url) if url != NO_JUDGE]
    secure: list[Place | None] = [place(url) for url in _texts(settings.judge_https_url)]
    secure += [None] * (len(plain) - len(secure))
    ours = [Judge(plain=one, secure=other, key=key) for one, other in zip(plain, secure, strict=False)]
    echoes = [
        Judge(plain=place(url), secure=_same_by_https(url), is_echo=True) for url in _texts(settings.judge_echo_urls)
    ]
    if not ours and not echoes:
        raise ConfigurationError("JUDGE_URL")
    return (*ours, *echoes)


async def introduced(to: Bench) -> Bench | None:
    """The bench with the judges that answer, and our own addresses as they see them; None while none does."""
    met, whole = await asyncio.gather(
        asyncio.gather(*(_meet(to, one) for one in to.judges)),
        asyncio.gather(*(_is_unchanged(to, one) for one in to.canaries)),
    )
    up = tuple(one for one, _ in filter(None, met))
    if len(up) < len(to.judges):
        log.warning("judges are down", count=len(to.judges) - len(up), up=len(up))
    if not up:
        return None
    addresses = [address for _, seen in filter(None, met) for address in seen]
    own = frozenset(filter(None, map(canonical, addresses)))
    canaries = tuple(one for one, is_whole in zip(to.canaries, whole, strict=True) if is_whole)
    return replace(to, judges=up, own=own, canaries=canaries, is_up=Witness(to).is_up)


@dataclass(slots=True)
class Witness:
    """Asks a judge again where checks fail as if it were down: one question at a time, whoever wants to know."""

    bench: Bench
    _answers: dict[Place, tuple[float, bool]] = field(default_factory=dict)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def is_up(self, one: Judge) -> bool:
        """Whether the judge answers a direct request, or did a moment ago."""
        async with self._lock:
            at, up = self._answers.get(one.plain, (-ASK_AGAIN_SECONDS, False))
            if time.monotonic() - at >= ASK_AGAIN_SECONDS:
                up = await _or_none(_see(self.bench, one, one.plain)) is not None
                self._answers[one.plain] = time.monotonic(), up
            return up


async def _meet(to: Bench, one: Judge) -> tuple[Judge, frozenset[str]] | None:
    """A judge that is up, with what it can do, and our addresses as it sees them; None where it is down."""
    others = [_see(to, one, one.plain, by=address) for address in await _other_families(to, one.plain)]
    has_canary, (plain, secure, *more) = await asyncio.gather(
        _has_canary(to, one),
        asyncio.gather(*map(_or_none, (_see(to, one, one.plain), _see(to, one, one.secure), *others))),
    )
    if plain is None:
        return None
    met = replace(one, direct=frozenset(plain.headers), has_canary=has_canary, secure=one.secure if secure else None)
    return met, frozenset(seen.peer for seen in (plain, secure, *more) if seen)


async def _see(to: Bench, one: Judge, there: Place | None, *, by: str = "") -> judge.Seen | None:
    if there is None:
        return None
    nonce = judge.new_nonce()
    return read_answer(one, await _get(to, there, path(there, nonce=nonce), by=by), nonce)


async def _has_canary(to: Bench, one: Judge) -> bool:
    if one.is_echo:
        return False
    nonce = judge.new_nonce()
    answer = await _or_none(_get(to, one.plain, path(one.plain, canary=nonce)))
    return (
        answer is not None and hashlib.sha256(answer.body).digest() == hashlib.sha256(canary(one.key, nonce)).digest()
    )


async def _is_unchanged(to: Bench, one: Canary) -> bool:
    """Whether the operator's page is still what it was: else nothing can be told by it."""
    answer = await _or_none(_get(to, one.place, one.place.target))
    unchanged = answer is not None and hashlib.sha256(answer.body).hexdigest() == one.digest
    if not unchanged:
        log.error("a canary page is down or has changed", host=one.place.host)
    return unchanged


async def _get(to: Bench, there: Place, target: str, *, by: str = "") -> Response:
    """The answer to a request that no proxy carries; `by` is one of the place's addresses."""
    with Deadline(to.connect_seconds):
        host, port = await guard.resolve(by or there.host, there.port, allow_loopback=to.allow_loopback)
        wire = await Wire.open(host, port)
        try:
            if there.scheme == "https":
                await wire.secure(to.tls, there.host)
            return await wire.ask(get(target, there.url(target).authority, agent=AGENT))
        finally:
            wire.close()


async def _other_families(to: Bench, there: Place) -> list[str]:
    """One IPv6 address of a place that is asked by IPv4: our own address differs there."""
    try:
        with Deadline(to.connect_seconds):
            return [address for address in await guard.system_lookup(there.host, there.port) if ":" in address][:1]
    except (AddressRefused, TimeoutError):
        return []


async def _or_none(asked: Awaitable[_T | None]) -> _T | None:
    try:
        return await asked
    except _NO:
        return None


def _same_by_https(url: str) -> Place:
    return place("https:" + url.partition(":")[2]) if place(url).port == 80 else place(url)


def _canary(text: str) -> Canary:
    """URL#digest; raises ValueError."""
    url, _, digest = text.partition("#")
    if len(bytes.fromhex(digest)) != hashlib.sha256().digest_size:
        raise ValueError("a canary is URL#SHA-256")
    return Canary(place=place(url), digest=digest.lower())


def _texts(setting: str) -> Iterable[str]:
    return [text.strip() for text in setting.split(",") if text.strip()]
