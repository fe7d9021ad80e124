"""The way through a proxy to a place: one connection, one request, one answer, by whatever protocol the proxy speaks."""

from __future__ import annotations

import secrets

from proxypool.checks.check import Reason
from proxypool.checks.context import AGENT, Place, Probe, StageFailed
from proxypool.errors import AddressRefused
from proxypool.network import guard
from proxypool.network.address import FORBIDDEN, Refusal, without
from proxypool.network.deadline import Deadline
from proxypool.network.http1 import MAX_BODY_BYTES
from proxypool.network.tunnel import Response, Wire, ask_plain, ask_secure


async def connect(probe: Probe) -> Wire:
    """A connection to the proxy's vetted address, left in the probe; raises StageFailed, WireError or TimeoutError."""
    proxy, bench = probe.proxy, probe.bench
    try:
        with Deadline(bench.connect_seconds):
            if probe.address is None:
                probe.address = await guard.resolve(
                    proxy.host, proxy.port, allow_loopback=bench.allow_loopback, own=bench.ours,
                    networks=without(FORBIDDEN, Refusal.PRIVATE) if probe.allow_private else FORBIDDEN,
                )  # fmt: skip
            probe.wire = await Wire.open(*probe.address)
    except AddressRefused as error:
        raise StageFailed(Reason.ADDRESS_REFUSED) from error
    return probe.wire


async def ask(probe: Probe, place: Place, target: str, *, max_body_bytes: int = MAX_BODY_BYTES) -> Response:
    """The answer to one GET through the proxy; takes the open connection of the probe, if there is one, and ends it.

    The name goes to the proxy unresolved. By https the certificate is verified for it; there is no way around that.
    """
    wire = probe.wire or await connect(probe)
    way = ask_secure if place.scheme == "https" else ask_plain
    try:
        return await way(wire, probe.hop, place.url(target), agent=AGENT, max_body_bytes=max_body_bytes)
    finally:
        probe.close()


def path(place: Place, **query: str) -> str:
    """A path that nobody can know before, with this query; an echo service keeps its own path."""
    asked = "&".join(f"{name}={text}" for name, text in query.items())
    if place.target == "/":
        return f"/{secrets.token_hex(4)}?{asked}"
    return f"{place.target}{'&' if '?' in place.target else '?'}{asked}"


def refused(status: int) -> Reason | None:
    """The reason that a status other than 200 stands for. A redirect is an outcome and is never followed."""
    if status == 200:
        return None
    if status == 407:
        return Reason.CREDENTIALS
    return Reason.REDIRECT if 300 <= status < 400 else Reason.BAD_STATUS
