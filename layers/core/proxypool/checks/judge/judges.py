"""Probes the judges without a proxy, once per batch: which are up, our own addresses, the headers that they add."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Iterable
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from proxypool.checks.judge.answer import Observation, TamperedAnswer, new_nonce
from proxypool.checks.judge.canary import canary_page
from proxypool.checks.probe.checkers.exit import canonical_address
from proxypool.checks.probe.checkers.http import parse_response
from proxypool.checks.probe.context import USER_AGENT, CanaryPage, CheckContext, Endpoint, Judge, StageFailed
from proxypool.checks.probe.geo import open_databases
from proxypool.checks.probe.request import random_path
from proxypool.checks.rules.target import TargetRule
from proxypool.config.settings import Settings
from proxypool.errors import AddressRefused, ConfigurationError
from proxypool.network import guard
from proxypool.network.address import own_endpoints
from proxypool.network.deadline import Deadline
from proxypool.network.tls import client_context
from proxypool.network.tunnel import Connection, Response, TransportError, build_get
from proxypool.telemetry import log

NO_JUDGE: Final = "none"  # value of JUDGE_URL that leaves only echo services
HEALTH_CACHE_SECONDS: Final = 3.0  # a judge's health is probed at most this often
_PROBE_ERRORS = (StageFailed, TamperedAnswer, TransportError, AddressRefused, TimeoutError)
_T = TypeVar("_T")


def build_context(settings: Settings, key: bytes | None, target_rules: tuple[TargetRule, ...] = ()) -> CheckContext:
    """The context of a batch, before the judges are probed. Makes the only TLS context of the batch.

    Raises ValueError for a malformed URL or canary page, ConfigurationError without any judge, OSError for an
    unreadable CA file or database.
    """
    judge_urls = (*_split(settings.judge_url), *_split(settings.judge_https_url))
    return CheckContext(
        judges=configured_judges(settings, key), tls=client_context(settings.judge_ca_file), allow_loopback=settings.allow_loopback,
        connect_seconds=settings.check_connect_seconds, stage_seconds=settings.check_stage_seconds,
        total_seconds=settings.check_total_seconds,
        canary_pages=tuple(map(_parse_canary_page, settings.canary_urls)), target_rules=target_rules,
        locate=open_databases(settings.geo_database) if settings.geo_database else None,
        own_endpoints=own_endpoints(*(url for url in judge_urls if url != NO_JUDGE)),
        detect_protocols=settings.detect_protocols, skipped_stages=frozenset(settings.check_skip),
    )  # fmt: skip


def configured_judges(settings: Settings, key: bytes | None) -> tuple[Judge, ...]:
    """The pool's judges, each paired with the HTTPS URL at the same position, then the echo services.

    Raises ConfigurationError if none is configured, ValueError for a malformed URL.
    """
    http = [Endpoint.from_url(url) for url in _split(settings.judge_url) if url != NO_JUDGE]
    https: list[Endpoint | None] = [Endpoint.from_url(url) for url in _split(settings.judge_https_url)]
    https += [None] * (len(http) - len(https))
    pool_judges = [Judge(http=first, https=second, key=key) for first, second in zip(http, https, strict=False)]
    echo_services = [
        Judge(http=Endpoint.from_url(url), https=_https_variant(url), is_echo=True) for url in settings.judge_echo_urls
    ]
    if not pool_judges and not echo_services:
        raise ConfigurationError("JUDGE_URL")
    return (*pool_judges, *echo_services)


async def probe_judges(context: CheckContext) -> CheckContext | None:
    """The context with the judges that are up, the unchanged canary pages and our own addresses; None if all are down."""
    probed, unchanged = await asyncio.gather(
        asyncio.gather(*(_probe_judge(context, judge) for judge in context.judges)),
        asyncio.gather(*(_is_unchanged(context, page) for page in context.canary_pages)),
    )
    up = [result for result in probed if result is not None]
    if len(up) < len(context.judges):
        log.warning("judges are down", count=len(context.judges) - len(up), up=len(up))
    if not up:
        return None
    addresses = [address for _, peers in up for address in peers]
    own_addresses = frozenset(filter(None, map(canonical_address, addresses)))
    return replace(
        context,
        judges=tuple(judge for judge, _ in up),
        own_addresses=own_addresses,
        canary_pages=tuple(page for page, same in zip(context.canary_pages, unchanged, strict=True) if same),
        is_judge_up=JudgeHealth(context).is_up,
    )


@dataclass(slots=True)
class JudgeHealth:
    """Probes judges again during a batch, one at a time, and caches each result for HEALTH_CACHE_SECONDS."""

    context: CheckContext
    _results: dict[Endpoint, tuple[float, bool]] = field(default_factory=dict)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def is_up(self, judge: Judge) -> bool:
        """True if the judge answers a direct request now or did within HEALTH_CACHE_SECONDS."""
        async with self._lock:
            probed_at, up = self._results.get(judge.http, (-HEALTH_CACHE_SECONDS, False))
            if time.monotonic() - probed_at >= HEALTH_CACHE_SECONDS:
                up = await _none_on_error(_observe(self.context, judge, judge.http)) is not None
                self._results[judge.http] = time.monotonic(), up
            return up


async def _probe_judge(context: CheckContext, judge: Judge) -> tuple[Judge, frozenset[str]] | None:
    """The judge with its capabilities, and our addresses as it sees them; None if it is down over HTTP."""
    other_families = [
        _observe(context, judge, judge.http, address=address) for address in await _ipv6_address(context, judge.http)
    ]
    has_canary, (http, https, *others) = await asyncio.gather(
        _has_canary(context, judge),
        asyncio.gather(
            *map(
                _none_on_error,
                (_observe(context, judge, judge.http), _observe(context, judge, judge.https), *other_families),
            )
        ),
    )
    if http is None:
        return None
    probed = replace(
        judge, direct_headers=frozenset(http.headers), has_canary=has_canary, https=judge.https if https else None
    )
    return probed, frozenset(observation.peer for observation in (http, https, *others) if observation)


async def _observe(
    context: CheckContext, judge: Judge, endpoint: Endpoint | None, *, address: str = ""
) -> Observation | None:
    if endpoint is None:
        return None
    nonce = new_nonce()
    response = await _get(context, endpoint, random_path(endpoint, nonce=nonce), address=address)
    return parse_response(judge, response, nonce)


async def _has_canary(context: CheckContext, judge: Judge) -> bool:
    if judge.is_echo:
        return False
    nonce = new_nonce()
    response = await _none_on_error(_get(context, judge.http, random_path(judge.http, canary=nonce)))
    expected = hashlib.sha256(canary_page(judge.key, nonce)).digest()
    return response is not None and hashlib.sha256(response.body).digest() == expected


async def _is_unchanged(context: CheckContext, page: CanaryPage) -> bool:
    """True if the operator's page still has its configured digest; otherwise it is not used in this batch."""
    response = await _none_on_error(_get(context, page.endpoint, page.endpoint.target))
    unchanged = response is not None and hashlib.sha256(response.body).hexdigest() == page.sha256
    if not unchanged:
        log.error("canary page is down or has changed", host=page.endpoint.host)
    return unchanged


async def _get(context: CheckContext, endpoint: Endpoint, target: str, *, address: str = "") -> Response:
    """The response to a direct GET, over `address` (one of the endpoint's) if given."""
    with Deadline(context.connect_seconds):
        ip, port = await guard.resolve_vetted(
            address or endpoint.host, endpoint.port, allow_loopback=context.allow_loopback
        )
        connection = await Connection.open(ip, port)
        try:
            if endpoint.scheme == "https":
                await connection.start_tls(context.tls, endpoint.host)
            return await connection.request(build_get(target, endpoint.url(target).authority, user_agent=USER_AGENT))
        finally:
            connection.close()


async def _ipv6_address(context: CheckContext, endpoint: Endpoint) -> list[str]:
    """At most one IPv6 address of an endpoint: connections over IPv6 have another source address than over IPv4."""
    try:
        with Deadline(context.connect_seconds):
            addresses = await guard.system_lookup(endpoint.host, endpoint.port)
    except (AddressRefused, TimeoutError):
        return []
    return [address for address in addresses if ":" in address][:1]


async def _none_on_error(probe: Awaitable[_T | None]) -> _T | None:
    try:
        return await probe
    except _PROBE_ERRORS:
        return None


def _https_variant(url: str) -> Endpoint:
    """The same URL over HTTPS if it has the default HTTP port, else the URL itself."""
    if Endpoint.from_url(url).port == 80:
        return Endpoint.from_url("https:" + url.partition(":")[2])
    return Endpoint.from_url(url)


def _parse_canary_page(text: str) -> CanaryPage:
    """Parses URL#SHA-256; raises ValueError."""
    url, _, digest = text.partition("#")
    if len(bytes.fromhex(digest)) != hashlib.sha256().digest_size:
        raise ValueError("a canary page is URL#SHA-256")
    return CanaryPage(endpoint=Endpoint.from_url(url), sha256=digest.lower())


def _split(setting: str) -> Iterable[str]:
    return [text.strip() for text in setting.split(",") if text.strip()]
