"""Asking the judge without a proxy, once per batch: is it up, what are our own addresses, which headers does it add?"""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import replace

from proxypool.checks import judge
from proxypool.checks.checkers.http import read_answer
from proxypool.checks.context import AGENT, Bench, StageFailed, place
from proxypool.errors import AddressRefused
from proxypool.network import guard
from proxypool.network.tunnel import Wire, WireError, get
from proxypool.settings import Settings


def bench(settings: Settings, key: bytes | None) -> Bench:
    """The shared part of a batch; its TLS context is the only one that the batch makes."""
    tls = ssl.create_default_context()
    if settings.judge_ca_file:
        tls.load_verify_locations(settings.judge_ca_file)
    return Bench(
        judge=place(settings.need("judge_url")),
        judge_https=place(settings.judge_https_url) if settings.judge_https_url else None,
        key=key, tls=tls, allow_loopback=settings.allow_loopback, connect_seconds=settings.check_connect_seconds,
        stage_seconds=settings.check_stage_seconds, total_seconds=settings.check_total_seconds,
    )  # fmt: skip


async def introduced(to: Bench) -> Bench | None:
    """The bench with our own addresses and the judge's own headers; None while the judge is down."""
    nonce, there = judge.new_nonce(), to.judge
    try:
        async with asyncio.timeout(to.connect_seconds):
            wire = await Wire.open(*await guard.resolve(there.host, there.port, allow_loopback=to.allow_loopback))
            try:
                answer = await wire.ask(get(f"/?nonce={nonce}", there.authority, agent=AGENT))
            finally:
                wire.close()
        seen = read_answer(to.key, answer, nonce)
    except (StageFailed, judge.Tampered, WireError, AddressRefused, TimeoutError):
        return None
    return replace(to, own=frozenset({seen.peer}), direct=frozenset(seen.headers))
