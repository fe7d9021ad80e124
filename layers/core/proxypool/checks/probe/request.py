"""Sends one GET through the proxy under check: one connection, one request, one response, in the proxy's protocol."""

from __future__ import annotations

import secrets

from proxypool.checks.check import Reason
from proxypool.checks.probe.context import USER_AGENT, Endpoint, Probe, StageFailed
from proxypool.errors import AddressRefused
from proxypool.network import guard
from proxypool.network.address import FORBIDDEN_NETWORKS, Refusal, without_reasons
from proxypool.network.deadline import Deadline
from proxypool.network.http1 import MAX_BODY_BYTES
from proxypool.network.tunnel import Connection, Response, get_http, get_https


async def connect(probe: Probe) -> Connection:
    """Opens a connection to the proxy's vetted address and stores it in the probe.

    Raises StageFailed, TransportError or TimeoutError.
    """
    proxy, context = probe.proxy, probe.context
    try:
        with Deadline(context.connect_seconds):
            if probe.address is None:
                probe.address = await guard.resolve_vetted(
                    proxy.host, proxy.port, allow_loopback=context.allow_loopback, own_endpoints=context.own_endpoints,
                    networks=without_reasons(FORBIDDEN_NETWORKS, Refusal.PRIVATE) if probe.allow_private else FORBIDDEN_NETWORKS,
                )  # fmt: skip
            probe.connection = await Connection.open(*probe.address)
    except AddressRefused as error:
        raise StageFailed(Reason.ADDRESS_REFUSED) from error
    return probe.connection


async def get_via_proxy(
    probe: Probe, endpoint: Endpoint, target: str, *, max_body_bytes: int = MAX_BODY_BYTES
) -> Response:
    """The response to one GET through the proxy, over the probe's open connection or a new one; closes the connection.

    The host name is sent to the proxy unresolved. Over HTTPS the certificate is always verified for it. Raises
    StageFailed, TransportError or TimeoutError.
    """
    connection = probe.connection or await connect(probe)
    get = get_https if endpoint.scheme == "https" else get_http
    try:
        return await get(
            connection, probe.hop, endpoint.url(target), user_agent=USER_AGENT, max_body_bytes=max_body_bytes
        )
    finally:
        probe.close()


def random_path(endpoint: Endpoint, **query: str) -> str:
    """An unpredictable path with this query; an endpoint that has a path (an echo service) uses that."""
    query_string = "&".join(f"{name}={text}" for name, text in query.items())
    if endpoint.target == "/":
        return f"/{secrets.token_hex(4)}?{query_string}"
    return f"{endpoint.target}{'&' if '?' in endpoint.target else '?'}{query_string}"


def reason_for_status(status: int) -> Reason | None:
    """The failure reason of an HTTP status; None for 200. Redirects are failures and are never followed."""
    if status == 200:
        return None
    if status == 407:
        return Reason.CREDENTIALS
    return Reason.REDIRECT if 300 <= status < 400 else Reason.BAD_STATUS
